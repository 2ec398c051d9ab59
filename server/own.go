// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/fairway-gpu/fairway/api"
)

func health(c *call) (any, error) { return nil, c.say("text/plain; charset=utf-8", []byte("ok\n")) }

func ready(c *call) (any, error) {
	if c.drain.Err() != nil {
		return nil, api.Errorf(api.Unavailable, "the daemon is stopping")
	}
	if c.Ready != nil {
		if err := c.Ready(); err != nil {
			var refused *api.Error
			if errors.As(err, &refused) {
				return nil, err
			}
			return nil, api.Errorf(api.Unavailable, "%w", err)
		}
	}
	return nil, c.say("text/plain; charset=utf-8", []byte("ready\n"))
}

func showOpenAPI(c *call) (any, error) { return nil, c.say("application/json", c.openAPI) }

func showMetrics(c *call) (any, error) {
	if c.PublicMetrics || c.who.Role == api.Admin {
		c.Metrics.handler.ServeHTTP(c.w, c.r)
	} else {
		c.Metrics.seenBy(c.who).ServeHTTP(c.w, c.r)
	}
	return nil, nil
}

// say writes an answer that is not made of a type of the API.
func (c *call) say(kind string, body []byte) error {
	c.w.Header().Set("Content-Type", kind)
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	if _, err := c.w.Write(body); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.Log.Debug("client disconnected", "err", err)
	}
	return nil
}
