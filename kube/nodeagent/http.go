// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

// Path is where the hub is asked.
const Path = "/nodes/v1/sync"

// Handler serves a hub. whose returns the node of the agent that a token belongs to.
func Handler(h *Hub, whose func(ctx context.Context, token string) (node string, err error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		node, err := whose(r.Context(), token)
		if err != nil {
			status := http.StatusServiceUnavailable
			if api.CodeOf(err) == api.Denied {
				status = http.StatusForbidden
			}
			http.Error(w, err.Error(), status)
			return
		}
		report, err := decode[Report](http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		orders := h.Sync(r.Context(), node, report)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(orders)
	})
	return mux
}

func decode[T any](from io.Reader) (out T, err error) {
	if err = json.NewDecoder(from).Decode(&out); err != nil {
		err = fmt.Errorf("read %T: %w", out, err)
	}
	return out, err
}

// Client asks a hub by HTTP.
type Client struct {
	URL       string // of the operator, such as http://fairway-nodes.fairway-system.svc:8461
	TokenFile string // read for every request, because the kubelet renews it
	HTTP      *http.Client
}

// Sync tells what an agent knows, and returns its orders.
func (c *Client) Sync(ctx context.Context, r Report) (Orders, error) {
	token, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return Orders{}, fmt.Errorf("read token: %w", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return Orders{}, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+Path, bytes.NewReader(body))
	if err != nil {
		return Orders{}, fmt.Errorf("ask the operator: %w", err)
	}
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := c.HTTP.Do(q)
	if err != nil {
		return Orders{}, fmt.Errorf("ask the operator: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return Orders{}, fmt.Errorf("ask the operator: %s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return decode[Orders](io.LimitReader(answer.Body, maxBody))
}
