// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// logHeader is the first line of a log file that continues another: how many lines
// came before it. By it a reader knows what is missing.
const logHeader = "[fairway: %d earlier lines are not in this file]\n"

// logFile is one of the two files of a log, open for reading.
type logFile struct {
	*os.File
	before int64 // lines that came before the file
	begin  int64 // where its text begins
}

// openLog opens a file of a log at the beginning of its text.
func openLog(root *os.Root, path string) (*logFile, error) {
	f, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	l := &logFile{File: f}
	head := make([]byte, 128)
	n, _ := f.ReadAt(head, 0)
	if line, _, ok := strings.Cut(string(head[:n]), "\n"); ok {
		if _, err := fmt.Sscanf(line+"\n", logHeader, &l.before); err == nil {
			l.begin = int64(len(line)) + 1
		}
	}
	if _, err := f.Seek(l.begin, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// same reports whether two files are one.
func (l *logFile) same(other *logFile) bool {
	a, err1 := l.Stat()
	b, err2 := other.Stat()
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// lines returns the number of lines of the file.
func (l *logFile) lines() (int64, error) {
	info, err := l.Stat()
	if err != nil {
		return 0, err
	}
	var lines int64
	block := make([]byte, 64<<10)
	for text := io.NewSectionReader(l, l.begin, info.Size()-l.begin); ; {
		n, err := text.Read(block)
		lines += int64(bytes.Count(block[:n], []byte{'\n'}))
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// seekTail moves to where the last n lines begin, and returns how many there are
// from there on.
func (l *logFile) seekTail(n int) (lines int, err error) {
	info, err := l.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	if end <= l.begin {
		return 0, nil
	}
	block := make([]byte, 64<<10)
	for at := end; at > l.begin; {
		size := min(int64(len(block)), at-l.begin)
		at -= size
		part := block[:size]
		if _, err := l.ReadAt(part, at); err != nil {
			return 0, err
		}
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			part = part[:i]
			if pos := at + int64(i) + 1; pos < end { // the end of the last line begins no new line
				if lines++; lines == n {
					_, err = l.Seek(pos, io.SeekStart)
					return lines, err
				}
			}
		}
	}
	_, err = l.Seek(l.begin, io.SeekStart)
	return lines + 1, err
}
