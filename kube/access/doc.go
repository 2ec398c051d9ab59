// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package access says who asks, in a cluster: the API server knows its users and
// what they may do, so Fairway keeps no accounts of its own.
//
// # People and programs
//
// Users turns a bearer token into an identity. The token must be meant for Fairway
// (its audience), which the API server confirms by a TokenReview; what its owner may
// do follows from what RBAC lets it do with Fairway's kinds (SubjectAccessReview):
//
//	update schedulingpolicies             admin, of all tenants
//	create trainingjobs in a namespace    user of the tenant that owns the namespace
//	list trainingjobs in a namespace      viewer of that tenant
//
// A service account belongs to the tenant of its namespace if it may do anything
// there, and to the first tenant, by name, in one of whose namespaces it may,
// otherwise. Tokens that Fairway itself has made are left to the state.
//
// # Agents
//
// Agents takes the reports of the agents in pods. A pod shows the token that the
// kubelet made for it; the API server confirms which pod it is. The pod must be of
// an attempt of a job of its own namespace, so a token of one namespace can say
// nothing of the jobs of another, whatever labels its pods have.
//
// An answer of the API server is used for a minute, a refusal for five seconds.
package access
