// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package server is the HTTP/JSON API of Fairway: it exposes the services of package
// api, the dashboard (server/web), metrics and an OpenAPI document. It authenticates
// callers and holds no state of its own but sessions; it imports only api and sched.
//
// There is one table of routes (routes.go). The multiplexer, the check of query
// parameters, the limits of bodies, the least role and the OpenAPI document are
// all made from it, so that none of them can disagree with another.
//
// Who asks is found out here, once for each request: by the credentials of the
// peer on the Unix socket for people, by a token or a session of the dashboard on
// the network. The Unix socket for agents answers to the secret of an attempt and
// to nothing else. What someone may do is decided twice: the table has a least role for
// each route, and the services check every request again and hide what belongs
// to other tenants.
//
// Nothing that arrives may crash the daemon or hold it up: bodies, headers,
// parameters, streams and rates have limits, a client that does not read is
// dropped, and a panic becomes an error of one request.
package server
