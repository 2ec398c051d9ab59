// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend

// OffGPUs and OntoGPUs are the parts that only call the driver.
var OffGPUs, OntoGPUs = offGPUs, ontoGPUs
