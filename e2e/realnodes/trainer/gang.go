// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/gob"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// environment is what Fairway passes to a rank.
type environment struct {
	rank, world, attempt int
	master               string // address of rank 0
	api, tokenFile       string
	reportEvery          time.Duration
	nodes                int
}

func readEnvironment() (environment, error) {
	e := environment{
		master: net.JoinHostPort(os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT")),
		api:    os.Getenv("FAIRWAY_API"), tokenFile: os.Getenv("FAIRWAY_TOKEN_FILE"), reportEvery: 30 * time.Second,
	}
	for _, v := range []struct {
		name    string
		to      *int
		without int
	}{{"RANK", &e.rank, 0}, {"WORLD_SIZE", &e.world, 1}, {"FAIRWAY_ATTEMPT", &e.attempt, 0}, {"FAIRWAY_NODES", &e.nodes, 1}} {
		*v.to = v.without
		text := os.Getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return e, fmt.Errorf("%s = %q; want a number", v.name, text)
		}
		*v.to = n
	}
	if s, err := strconv.ParseFloat(os.Getenv("FAIRWAY_REPORT_SECONDS"), 64); err == nil && s > 0 {
		e.reportEvery = time.Duration(s * float64(time.Second))
	}
	return e, nil
}

// How long ranks wait for each other: at first, and in a step.
const (
	meetWithin  = 60 * time.Second
	replyWithin = 15 * time.Second
)

// gang is the ranks of an attempt. Rank 0 has a connection to each of the others.
type gang struct {
	rank  int
	links []*link
}

type link struct {
	net.Conn
	in  *gob.Decoder
	out *gob.Encoder
}

func newLink(c net.Conn) *link { return &link{c, gob.NewDecoder(c), gob.NewEncoder(c)} }

// message is what ranks send each other.
type message struct {
	Rank  int
	Parts []part
	Stop  bool
}

// meet connects to the other ranks.
func meet(e environment) (*gang, error) {
	g := &gang{rank: e.rank}
	if e.world == 1 {
		return g, nil
	}
	deadline := time.Now().Add(meetWithin)
	if e.rank > 0 {
		l, err := dial(e.master, deadline)
		if err != nil {
			return nil, err
		}
		g.links = []*link{l}
		return g, l.send(message{Rank: e.rank})
	}
	listener, err := net.Listen("tcp", e.master)
	if err != nil {
		return nil, fmt.Errorf("meet: %w", err)
	}
	defer listener.Close()
	if err := listener.(*net.TCPListener).SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("meet: %w", err)
	}
	g.links = make([]*link, e.world-1)
	for range g.links {
		c, err := listener.Accept()
		if err != nil {
			return nil, fmt.Errorf("meet %d ranks: %w", e.world, err)
		}
		l := newLink(c)
		m, err := l.receive()
		if err != nil {
			return nil, err
		}
		if m.Rank < 1 || m.Rank >= e.world || g.links[m.Rank-1] != nil {
			return nil, fmt.Errorf("meet: rank %d came twice, or is none of %d", m.Rank, e.world)
		}
		g.links[m.Rank-1] = l
	}
	return g, nil
}

func dial(address string, deadline time.Time) (*link, error) {
	for {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return newLink(c), nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("meet: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (l *link) send(m message) error {
	if err := l.SetWriteDeadline(time.Now().Add(replyWithin)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := l.out.Encode(m); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (l *link) receive() (message, error) {
	var m message
	if err := l.SetReadDeadline(time.Now().Add(replyWithin)); err != nil {
		return m, fmt.Errorf("receive: %w", err)
	}
	if err := l.in.Decode(&m); err != nil {
		return m, fmt.Errorf("receive: %w", err)
	}
	return m, nil
}

// reduce adds up the parts of all ranks, and reports whether one was asked to stop,
// which all ranks learn at the same step.
func (g *gang) reduce(mine []part, asked bool) (total part, stop bool, err error) {
	if g.rank > 0 {
		if err := g.links[0].send(message{g.rank, mine, asked}); err != nil {
			return total, false, err
		}
		m, err := g.links[0].receive()
		if err != nil || len(m.Parts) != 1 {
			return total, false, fmt.Errorf("receive the sum: %d parts, %w", len(m.Parts), err)
		}
		return m.Parts[0], m.Stop, nil
	}
	all := mine
	for _, l := range g.links {
		m, err := l.receive()
		if err != nil {
			return total, false, err
		}
		all = append(all, m.Parts...)
		asked = asked || m.Stop
	}
	if total, err = sum(all); err != nil {
		return total, false, err
	}
	for _, l := range g.links {
		if err := l.send(message{0, []part{total}, asked}); err != nil {
			return total, false, err
		}
	}
	return total, asked, nil
}

// barrier waits for all ranks.
func (g *gang) barrier() error {
	if g.rank > 0 {
		_, err := g.links[0].receive()
		return err
	}
	for _, l := range g.links {
		if err := l.send(message{}); err != nil {
			return err
		}
	}
	return nil
}

func (g *gang) close() {
	for _, l := range g.links {
		if l != nil {
			l.Close()
		}
	}
}
