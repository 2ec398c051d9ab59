// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Agent bids for one app or several: every question names the app.
type Agent interface {
	// Rho returns the app's current finish-time fairness.
	Rho(context.Context, RhoQuery) (RhoReply, error)
	// Bid returns what GPUs are worth to the app.
	Bid(context.Context, Offer) (BidTable, error)
	// Win receives what the app holds from now on.
	Win(context.Context, Win) error
}

// Serve answers a daemon's questions with an agent. It refuses callers without the
// secret.
func Serve(a Agent, secret string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+RhoPath, answer(secret, func(ctx context.Context, q RhoQuery) (any, error) { return a.Rho(ctx, q) }))
	mux.Handle("POST "+BidPath, answer(secret, func(ctx context.Context, o Offer) (any, error) { return a.Bid(ctx, o) }))
	mux.Handle("POST "+WinPath, answer(secret, func(ctx context.Context, w Win) (any, error) { return nil, a.Win(ctx, w) }))
	return mux
}

// answer makes the handler of one question.
func answer[Q any](secret string, respond func(context.Context, Q) (any, error)) http.Handler {
	want := sha256.Sum256([]byte(secret)) // of one length, so that the comparison takes one time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(shown))
		if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			refuse(w, http.StatusUnauthorized, errors.New("the secret is not this agent's"))
			return
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, errors.New("the request is not JSON"))
			return
		}
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			refuse(w, http.StatusRequestEntityTooLarge, err)
			return
		}
		var q Q
		if err == nil {
			err = decode(data, &q, false)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		reply, err := respond(r.Context(), q)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		if reply == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		send(w, http.StatusOK, reply)
	})
}

func refuse(w http.ResponseWriter, status int, err error) {
	send(w, status, map[string]string{"error": err.Error()})
}

func send(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil { // a number that JSON does not have
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer is not a number"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // no one is left to get the error
}
