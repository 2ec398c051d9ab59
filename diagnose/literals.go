// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

// literals finds many texts in a line at once, in upper or lower case: the
// automaton of Aho and Corasick. Bytes that no text has share one column, which
// keeps its table small.
type literals struct {
	class  [256]uint8 // column of each byte
	width  int
	next   []int32   // state x column
	output [][]int32 // texts that end in a state
	length []int     // of each text
}

// newLiterals builds the automaton for texts in lower case, none of them empty.
func newLiterals(texts []string) *literals {
	l := &literals{width: 1}
	for _, t := range texts {
		l.length = append(l.length, len(t))
		for i := range len(t) {
			if l.class[t[i]] == 0 {
				l.class[t[i]] = uint8(l.width) // fits: upper case is not among them
				l.width++
			}
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		l.class[c] = l.class[c-'A'+'a']
	}
	l.grow(texts)
	l.link()
	return l
}

func (l *literals) addState() int32 {
	l.next = append(l.next, make([]int32, l.width)...)
	l.output = append(l.output, nil)
	return int32(len(l.output) - 1)
}

// grow makes the tree of all texts; 0, the root, stands for no child.
func (l *literals) grow(texts []string) {
	l.addState()
	for id, t := range texts {
		state := int32(0)
		for i := range len(t) {
			at := int(state)*l.width + int(l.class[t[i]])
			if l.next[at] == 0 {
				child := l.addState()
				l.next[at] = child
			}
			state = l.next[at]
		}
		l.output[state] = append(l.output[state], int32(id))
	}
}

// link turns the tree into an automaton: where a state has no child it goes
// where its longest proper suffix would go.
func (l *literals) link() {
	fail := make([]int32, len(l.output))
	var queue []int32
	for c := range l.width {
		if child := l.next[c]; child != 0 {
			queue = append(queue, child)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		l.output[state] = append(l.output[state], l.output[fail[state]]...)
		for c := range l.width {
			at := int(state)*l.width + c
			onFail := l.next[int(fail[state])*l.width+c]
			if child := l.next[at]; child != 0 {
				fail[child] = onFail
				queue = append(queue, child)
			} else {
				l.next[at] = onFail
			}
		}
	}
}

// find calls found with each text in the line and where it begins.
func (l *literals) find(line string, found func(text, start int)) {
	state := 0
	for i := range len(line) {
		state = int(l.next[state*l.width+int(l.class[line[i]])])
		for _, id := range l.output[state] {
			found(int(id), i+1-l.length[id])
		}
	}
}
