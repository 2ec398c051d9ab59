// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/daemon/strictyaml"
)

// contexts is the file of the daemons and clusters that somebody uses.
type contexts struct {
	Current  string           `json:"current,omitempty" yaml:"current,omitempty"`
	Contexts map[string]place `json:"contexts" yaml:"contexts"`
}

// place is one of them. In its address and its tunnel, {port} stands for a free port
// of this machine.
type place struct {
	Address string `json:"address" yaml:"address"`
	// Tunnel is a command that leads to the daemon for as long as it runs.
	Tunnel []string `json:"tunnel,omitempty" yaml:"tunnel,omitempty"`
	// TokenCommand prints a token.
	TokenCommand []string `json:"token_command,omitempty" yaml:"token_command,omitempty"`
	TokenFile    string   `json:"token_file,omitempty" yaml:"token_file,omitempty"`
	CA           string   `json:"ca,omitempty" yaml:"ca,omitempty"`
	// ServerName is the name in the certificate at the end of a tunnel.
	ServerName string `json:"server_name,omitempty" yaml:"server_name,omitempty"`
	// Price is that of a GPU hour, in a currency that all contexts share; 0: none is set.
	Price float64 `json:"price,omitempty" yaml:"price,omitempty"`
}

// thisMachine is the name of the place that needs no entry: the daemon of this
// machine, or what variables and flags say.
const thisMachine = "local"

const portMark = "{port}"

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func contextsFile() string {
	return filepath.Join(homeDir("XDG_CONFIG_HOME", ".config"), "contexts.yaml")
}

// readContexts reads the file; one that is not there is empty.
func readContexts(path string) (contexts, error) {
	c := contexts{Contexts: map[string]place{}}
	if err := strictyaml.ReadFile(path, &c, c.validate); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("read contexts: %w", err)
	}
	return c, nil
}

func (c *contexts) validate() error {
	for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
		p := c.Contexts[name]
		if !contextName.MatchString(name) || name == thisMachine {
			return fmt.Errorf("context %.80q: want a name of letters, digits, dots and dashes, and not %s", name, thisMachine)
		}
		if err := p.validate(); err != nil {
			return fmt.Errorf("context %s: %w", name, err)
		}
	}
	if _, there := c.Contexts[c.Current]; c.Current != "" && !there {
		return fmt.Errorf("current = %.80q; want one of the contexts: %s", c.Current, strings.Join(c.names(), ", "))
	}
	return nil
}

func (p place) validate() error {
	switch {
	case p.Address == "":
		return errors.New("address is empty; want unix:///path, http://host:port or https://host:port")
	case len(p.Tunnel) > 0 && !strings.Contains(p.Address, portMark):
		return fmt.Errorf("address = %.80q; it must contain %s, the port of the tunnel", p.Address, portMark)
	case len(p.Tunnel) > 0 && !strings.Contains(strings.Join(p.Tunnel, " "), portMark):
		return fmt.Errorf("tunnel = %.80q; it must contain %s, the port to listen on", p.Tunnel, portMark)
	case len(p.TokenCommand) > 0 && p.TokenFile != "":
		return errors.New("token_command and token_file are both set; want one")
	case !(p.Price >= 0) || math.IsInf(p.Price, 1):
		return fmt.Errorf("price = %g; want the price of a GPU hour, 0 or more", p.Price)
	}
	return nil
}

func (c *contexts) names() []string { return slices.Sorted(maps.Keys(c.Contexts)) }

// write replaces the file; only its owner may read it.
func (c *contexts) write(path string) error {
	if err := c.validate(); err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	if err := replaceFile(path, text, 0o600); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// place returns where the flags, or else the current context, lead; nil: to this
// machine, or where variables say.
func (r *remote) place() (*place, error) {
	name := r.context
	switch {
	case name == thisMachine:
		return nil, nil
	case name != "" && r.address != "":
		return nil, usagef("--context and --address were both given; want one")
	case name == "" && (r.address != "" || os.Getenv(envAddress) != ""):
		return nil, nil
	}
	all, err := readContexts(contextsFile())
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = all.Current
	}
	if name == "" {
		return nil, nil
	}
	p, there := all.Contexts[name]
	if !there {
		return nil, usagef("unknown context %.80q; want one of %s", name, strings.Join(append(all.names(), thisMachine), ", "))
	}
	return &p, nil
}
