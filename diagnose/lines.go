// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What is looked at of a log.
const (
	TailBytes    = 64 << 10 // the end of it
	MaxLineBytes = 2 << 10  // the beginning of each line
	MaxLines     = 4000     // that are not empty, the last ones
)

// level is how serious a line calls itself.
type level uint8

const (
	noLevel level = iota
	low           // debug, information
	warning
	serious // error, fatal, critical
)

// line is one line of a log, taken apart.
type line struct {
	number    int
	rank      int    // -1: the line does not say
	text      string // without the mark of the rank; of an exception: without its prefix
	at        stamp
	level     level
	frame     bool   // part of a traceback: source code, not messages
	exception bool   // the end of a traceback, or like one
	traced    bool   // the end of a traceback, for sure
	from      string // of an exception: the last frame of its traceback
}

// split returns the last lines of a log.
func split(l Log) []line {
	text, number := l.Text, max(1, l.Line)
	if cut := len(text) - TailBytes; cut > 0 {
		if i := strings.IndexByte(text[cut:], '\n'); i >= 0 && i < MaxLineBytes {
			cut += i + 1
		}
		number += strings.Count(text[:cut], "\n")
		text = text[cut:]
	}
	var lines []line
	var last stamp
	for raw := range strings.SplitSeq(text, "\n") {
		for part := range strings.SplitSeq(raw, "\r") { // progress bars
			if part == "" {
				continue
			}
			one := parseLine(part, number)
			if one.rank < 0 {
				one.rank = l.Rank
			}
			if one.at.kind == noStamp {
				one.at = last
			}
			last = one.at
			lines = append(lines, one)
		}
		number++
	}
	return lines[max(0, len(lines)-MaxLines):]
}

func parseLine(s string, number int) line {
	s = s[:min(len(s), MaxLineBytes)]
	if strings.IndexByte(s, '\x1b') >= 0 {
		s = withoutEscapes(s)
	}
	l := line{number: number}
	bare := unwrap(s)
	l.rank, l.text = cutRank(strings.TrimRightFunc(bare, unicode.IsSpace))
	if l.at = stampOf(l.text); l.at.kind == noStamp && len(bare) < len(s) {
		l.at = stampOf(s)
	}
	l.level = levelOf(l.text)
	return l
}

var dockerEscapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "", `\r`, "", `\t`, "\t", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// unwrap takes the line of the program out of what container runtimes write:
// "2026-01-02T03:04:05.678Z stderr F line", {"log":"line\n","stream":"stderr",...}.
func unwrap(s string) string {
	const reach = 48
	if rest, ok := strings.CutPrefix(s, `{"log":"`); ok {
		text, _, _ := strings.Cut(rest, `","stream":"`)
		return dockerEscapes.Replace(text)
	}
	head := s[:min(len(s), reach)]
	for _, mark := range []string{" stderr F ", " stdout F ", " stderr P ", " stdout P "} {
		if i := strings.Index(head, mark); i >= 19 && head[4] == '-' {
			return s[i+len(mark):]
		}
	}
	return s
}

// withoutEscapes drops what colours a terminal.
func withoutEscapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\x1b' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '[' {
			for i += 2; i < len(s) && (s[i] < '@' || s[i] > '~'); i++ {
			}
		}
	}
	return b.String()
}

// cutRank reads the mark that launchers put before the lines of a rank:
// "[rank3]: ", "[default3]:", "[1,3]<stderr>: ". Ray's "(name pid=7) " names no
// rank and is dropped.
func cutRank(s string) (rank int, rest string) {
	switch {
	case strings.HasPrefix(s, "[rank"):
		if n, after, ok := number(s[len("[rank"):]); ok && strings.HasPrefix(after, "]") {
			return n, strings.TrimPrefix(strings.TrimPrefix(after[1:], ":"), " ")
		}
	case strings.HasPrefix(s, "[default"):
		if n, after, ok := number(s[len("[default"):]); ok && strings.HasPrefix(after, "]:") {
			return n, after[2:]
		}
	case strings.HasPrefix(s, "["):
		if _, after, ok := number(s[1:]); ok && strings.HasPrefix(after, ",") {
			if n, after, ok := number(after[1:]); ok && strings.HasPrefix(after, "]<std") {
				_, after, _ = strings.Cut(after, ">")
				return n, strings.TrimPrefix(strings.TrimPrefix(after, ":"), " ")
			}
		}
	case strings.HasPrefix(s, "("):
		if i := strings.Index(s, ") "); i > 0 && i < 100 && strings.Contains(s[:i], "pid=") {
			return -1, s[i+2:]
		}
	}
	return -1, s
}

// number reads a small number at the start of a text.
func number(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && i < 6 && s[i] >= '0' && s[i] <= '9' {
		n = 10*n + int(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0
}

// stamp is the time that a line carries, comparable with stamps of its kind.
type stamp struct {
	kind  stampKind
	micro int64
}

type stampKind uint8

const (
	noStamp stampKind = iota
	full              // 2026-11-15 07:56:45.123
	glog              // E1115 07:56:45.123456: no year
)

// before reports whether s is earlier than t; ok is false when nobody can say.
func (s stamp) before(t stamp) (earlier, ok bool) {
	if s.kind == noStamp || s.kind != t.kind || s.micro == t.micro {
		return false, false
	}
	return s.micro < t.micro, true
}

// stampOf finds the time near the start of a line.
func stampOf(s string) stamp {
	const reach = 48
	head := s[:min(len(s), reach)]
	for i := 0; i+19 <= len(head); i++ {
		if head[i+4] == '-' && looksLike(head[i:], "0000-00-00") && (head[i+10] == ' ' || head[i+10] == 'T') && looksLike(head[i+11:], "00:00:00") {
			d := time.Date(digits(head[i:i+4]), time.Month(digits(head[i+5:i+7])), digits(head[i+8:i+10]), 0, 0, 0, 0, time.UTC)
			return stamp{full, d.UnixMicro() + clockMicro(s[i+11:])}
		}
	}
	for i := 0; i+13 <= len(head); i++ {
		if strings.IndexByte("EWIF", head[i]) < 0 {
			continue
		}
		month := 2 // digits; PyTorch prints one for the first nine
		if looksLike(head[i+1:], "000 00:00:00") {
			month = 1
		} else if !looksLike(head[i+1:], "0000 00:00:00") {
			continue
		}
		day := i + 1 + month
		days := 31*digits(head[i+1:day]) + digits(head[day:day+2])
		return stamp{glog, int64(days)*86_400_000_000 + clockMicro(s[day+3:])}
	}
	return stamp{}
}

// clockMicro reads "07:56:45" and the fraction that may follow.
func clockMicro(s string) int64 {
	micro := int64(digits(s[:2])*3600+digits(s[3:5])*60+digits(s[6:8])) * 1_000_000
	if len(s) > 8 && (s[8] == '.' || s[8] == ',') {
		unit := int64(100_000)
		for i := 9; i < len(s) && i < 15 && s[i] >= '0' && s[i] <= '9'; i++ {
			micro += int64(s[i]-'0') * unit
			unit /= 10
		}
	}
	return micro
}

// looksLike reports whether s begins with the shape, where 0 is any digit.
func looksLike(s, shape string) bool {
	if len(s) < len(shape) {
		return false
	}
	for i := range len(shape) {
		digit := s[i] >= '0' && s[i] <= '9'
		if shape[i] == '0' && !digit || shape[i] != '0' && s[i] != shape[i] {
			return false
		}
	}
	return true
}

func digits(s string) int {
	n := 0
	for i := range len(s) {
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// printable makes a line of a log safe to print and to keep.
func printable(s string) string {
	const most = 300 // bytes
	s = strings.TrimSpace(s)
	if len(s) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
