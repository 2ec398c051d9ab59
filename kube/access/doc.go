// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package access authenticates and authorises callers in a cluster. The API server
// knows its users and their rights, so Fairway keeps no accounts.
//
// # People and programs
//
// Users turns a bearer token into an identity. The token must be meant for Fairway
// (its audience), which the API server confirms by a TokenReview; the role follows
// from what RBAC allows its owner on Fairway's kinds (SubjectAccessReview):
//
//	update schedulingpolicies             admin, of all tenants
//	create trainingjobs in a namespace    user of the tenant that owns the namespace
//	list trainingjobs in a namespace      viewer of that tenant
//
// A service account belongs to the tenant of its namespace if it has any right there,
// otherwise to the first tenant, by name, with a namespace where it has one. The state
// handles tokens that Fairway issued.
//
// # Agents
//
// Agents receives the reports of the agents in pods. An agent presents the token that
// the kubelet mounted into its pod, and the API server confirms which pod it is. The
// pod must belong to an attempt of a job in its own namespace, so a token of one
// namespace cannot report on jobs of another, whatever labels its pods have.
//
// # Nodes
//
// Nodes does so for the agents of nodes, which suspend pods: the pod of the agent says
// which node it speaks for.
//
// Answers of the API server are cached for a minute, refusals for five seconds.
package access
