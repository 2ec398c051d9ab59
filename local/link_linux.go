// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The link between a supervisor and the agents of its ranks is an abstract Unix
// socket, so it needs no folder that both may enter. Each message is one line of
// JSON; python/src/fairway/member.py says which.

// fromRank is a message of a rank.
type fromRank struct {
	Member     *int `json:"member"` // number of the process; the first message
	Generation int  `json:"generation"`
	Ready      *int `json:"ready"`
	Up         *int `json:"up"`
}

// place is where a rank is in a generation.
type place struct {
	Generation int  `json:"generation"`
	Rank       int  `json:"rank"` // -1: it leaves
	World      int  `json:"world"`
	Port       int  `json:"port"`
	Lost       bool `json:"lost"`
	Fresh      int  `json:"fresh"`
}

type goAhead struct {
	Go int `json:"go"`
}

// heard is a message with its sender.
type heard struct {
	number int
	conn   net.Conn
	fromRank
}

// linkName names the socket. All users see the name, so it does not hold the nonce.
func linkName(nonce string) string {
	sum := sha256.Sum256([]byte("gang " + nonce))
	return "fairway-" + hex.EncodeToString(sum[:12])
}

// listen opens the link for the ranks of a gang. Without it a change means a restart, as
// for containers: a rank that leaves must be gone when its process is.
func (g *gang) listen() {
	g.heard = make(chan heard, 16)
	if g.order.Task.Single || g.order.Box != nil || len(g.order.Task.Roles) > 0 {
		return
	}
	l, err := net.Listen("unix", "@"+linkName(g.order.Nonce))
	if err != nil {
		g.note("cannot change in place: %v", err)
		return
	}
	g.listener = l
	uid := os.Geteuid()
	if g.order.Switch {
		uid = g.order.Owner.UID
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if peer, err := peerUser(conn); err != nil || peer != uid {
				conn.Close()
				continue
			}
			go g.receive(conn)
		}
	}()
}

// peerUser returns the user of the other side.
func peerUser(conn net.Conn) (uid int, err error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) {
		var c *unix.Ucred
		if c, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(c.Uid)
		}
	}); e != nil {
		return 0, e
	}
	return uid, err
}

// receive hands on what a rank says.
func (g *gang) receive(conn net.Conn) {
	defer conn.Close()
	number := -1
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var m fromRank
		if json.Unmarshal(lines.Bytes(), &m) != nil || number < 0 && m.Member == nil {
			return
		}
		if m.Member != nil {
			number = *m.Member
		}
		g.heard <- heard{number, conn, m}
	}
}

// hear takes in a message of a rank.
func (g *gang) hear(h heard) {
	for _, r := range g.ranks {
		if r.number != h.number || r.done {
			continue
		}
		if h.Member != nil && r.link == nil {
			r.link = h.conn
			if c := g.change; c != nil && c.told {
				r.tell(c.placeOf(r))
			}
		}
		if r.link != h.conn {
			continue
		}
		if h.Ready != nil {
			r.ready = *h.Ready
		}
		if h.Up != nil {
			r.up = *h.Up
		}
	}
}

// tell sends a message to the rank. One that does not read has ended, or will be
// missed when its time is up.
func (r *rank) tell(message any) {
	if r.link == nil {
		return
	}
	data, err := json.Marshal(message)
	if err != nil {
		return
	}
	_ = r.link.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = r.link.Write(append(data, '\n'))
}

// trained reports whether the rank has the state of the training.
func (r *rank) trained() bool { return r.up >= 0 }
