// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fairway-gpu/fairway/client"
	"github.com/fairway-gpu/fairway/sched"
)

func newTop() *cobra.Command {
	var r remote
	every := sched.Duration(2 * time.Second)
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch GPUs, running jobs and the queue in the terminal",
		Long: `Watch GPUs, running jobs with their progress, and the queue with the reason why each
job waits. The view refreshes by itself; q quits; the arrow keys, Page Up and Page Down
scroll. If the output is not a terminal, it is printed once.` + exitHelp,
		Example: `  fairway top
  fairway top --every 500ms
  fairway top | head -20`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if every.D() < 100*time.Millisecond {
				return usagef("--every is %s; want 100ms or more", every)
			}
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			first, err := take(c.Context(), daemon)
			if err != nil {
				return err
			}
			out, onScreen := terminal(c.OutOrStdout())
			in, hasKeys := terminal(c.InOrStdin())
			if !onScreen || !hasKeys {
				const width = 120
				return printFrame(c.OutOrStdout(), first, screen{width: width})
			}
			t := &topLoop{daemon: daemon, in: in, out: out, every: every.D(), last: first, colour: os.Getenv("NO_COLOR") == ""}
			return t.run(c.Context())
		},
	}
	c.Flags().TextVar(&every, "every", every, "refresh interval")
	r.register(c)
	return c
}

// take asks the daemon for a picture.
func take(ctx context.Context, daemon *client.Client) (p picture, err error) {
	if p.overview, err = daemon.Overview(ctx); err != nil {
		return p, err
	}
	if p.nodes, err = daemon.Nodes(ctx); err != nil {
		return p, err
	}
	const most = 500
	p.jobs, err = listing{max: most}.ask(ctx, daemon)
	p.overview.Now = p.overview.Now.Local()
	return p, err
}

func printFrame(w io.Writer, p picture, s screen) error {
	lines, _ := frame(p, s)
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// topLoop draws until its user has seen enough.
type topLoop struct {
	daemon  *client.Client
	in, out *os.File
	every   time.Duration
	colour  bool

	last   picture
	scroll int
	most   int // that it can be scrolled
	page   int // lines of a page
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

func (t *topLoop) run(ctx context.Context) error {
	old, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	fmt.Fprint(t.out, enterScreen)
	defer func() {
		fmt.Fprint(t.out, leaveScreen)
		_ = term.Restore(int(t.in.Fd()), old) // nothing else can be done about it
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, pictures := make(chan string), make(chan picture)
	go readKeys(ctx, t.in, keys)
	go t.refresh(ctx, pictures)
	resize := time.NewTicker(250 * time.Millisecond) // a size that is asked for needs no signal
	defer resize.Stop()
	width, height := t.size()
	t.draw(width, height)
	for {
		select {
		case <-ctx.Done():
			return nil
		case key, open := <-keys:
			if !open || t.press(key) {
				return nil
			}
		case p := <-pictures:
			if p.fault != "" {
				t.last.fault = p.fault
			} else {
				t.last = p
			}
		case <-resize.C:
			w, h := t.size()
			if w == width && h == height {
				continue
			}
			width, height = w, h
		}
		t.draw(width, height)
	}
}

func (t *topLoop) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

func (t *topLoop) draw(width, height int) {
	t.page = max(1, height-4)
	var lines []string
	lines, t.most = frame(t.last, screen{width: width, height: height, scroll: t.scroll, colour: t.colour})
	t.scroll = max(0, min(t.scroll, t.most))
	lines = lines[:min(len(lines), height)]
	fmt.Fprint(t.out, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
}

// press acts on a key and reports whether it is the last.
func (t *topLoop) press(key string) (quit bool) {
	move := map[string]int{
		"\x1b[A": -1, "\x1bOA": -1, "k": -1, "\x1b[B": 1, "\x1bOB": 1, "j": 1,
		"\x1b[5~": -t.page, "\x1b[6~": t.page, " ": t.page, "g": -t.most, "\x1b[H": -t.most, "G": t.most, "\x1b[F": t.most,
	}
	t.scroll = max(0, min(t.most, t.scroll+move[key]))
	return key == "q" || key == "Q" || key == "\x03" || key == "\x1b"
}

// readKeys sends what is typed, a key at a time: a terminal sends the bytes of
// a special key together.
func readKeys(ctx context.Context, in io.Reader, keys chan<- string) {
	defer close(keys)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		for _, key := range splitKeys(string(buf[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}

// splitKeys parts what was read into keys: single characters and sequences that
// begin with escape.
func splitKeys(s string) []string {
	var keys []string
	for len(s) > 0 {
		n := 1
		if len(s) > 2 && s[0] == '\x1b' && (s[1] == '[' || s[1] == 'O') {
			n = 3
			for s[1] == '[' && n < len(s) && (s[n-1] < '@' || s[n-1] > '~') {
				n++
			}
		}
		keys = append(keys, s[:n])
		s = s[n:]
	}
	return keys
}

// refresh takes pictures until the context ends. A daemon that does not answer
// is told about in the picture: it may come back.
func (t *topLoop) refresh(ctx context.Context, pictures chan<- picture) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(t.every):
		}
		p, err := take(ctx, t.daemon)
		if err != nil {
			p = picture{fault: err.Error()}
		}
		select {
		case pictures <- p:
		case <-ctx.Done():
			return
		}
	}
}
