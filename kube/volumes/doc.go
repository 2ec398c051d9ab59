// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumes knows on which nodes the volumes that pods claim can be used, and binds
// claims that wait for a node, as kube-scheduler does for the pods that it places.
//
// A View follows the claims, volumes and storage classes of a cluster. Unmet is the filter
// of nodes: where a bound claim's volume is, and where an unbound one could get a volume.
// Next is what a claim needs before the pods of a gang can be bound to their nodes. A claim
// is bound by others: the volume controller binds it to a volume that Fairway has reserved
// for it, or a provisioner makes a volume for the node that Fairway has chosen.
//
// The limits on attached volumes (CSINode) and the capacity that drivers report
// (CSIStorageCapacity) are not looked at: a provisioner that cannot make a volume says so,
// and the job goes elsewhere.
package volumes
