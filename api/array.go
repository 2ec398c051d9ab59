// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Member says which job of an array a job is.
type Member struct {
	Array string `json:"array"` // its id
	Index int    `json:"index"` // that the job is told, in FAIRWAY_ARRAY_INDEX
	Of    int    `json:"of"`    // jobs in the array
	// Most is how many of the array may run, or be ready to, at once; 0: all.
	Most int `json:"most,omitempty"`
}

// maxArrayIndex bounds the numbers of an array. How many there may be is MaxSubmit.
const maxArrayIndex = 999_999

// Indexes reads an array: numbers and ranges, "0-99", "1,3,10-20", with a step,
// "0-90:10", and with how many may run at once, "0-99%8"; most is 0 if that is not said.
func Indexes(array string) (indexes []int, most int, err error) {
	bad := func(format string, args ...any) ([]int, int, error) {
		return nil, 0, Errorf(Invalid, format, args...).On("array").Try("use numbers and ranges such as 0-99 or 1,3,10-20, and %8 behind them to run 8 at once")
	}
	list, limit, limited := strings.Cut(array, "%")
	if limited {
		if most, err = strconv.Atoi(limit); err != nil || most < 1 {
			return bad("is %.60q, of which %.20q is not a number of jobs at once", array, limit)
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, step, ok := arrayRange(strings.TrimSpace(part))
		if !ok {
			return bad("is %.60q, of which %.20q is not a number or a range", array, part)
		}
		for i := from; i <= to; i += step {
			if len(indexes) == MaxSubmit {
				return nil, 0, Errorf(Invalid, "is %.60q: more than %d jobs", array, MaxSubmit).On("array").Try("submit several arrays, or let each job do more")
			}
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	if n := len(slices.Compact(slices.Clone(indexes))); n != len(indexes) {
		return bad("is %.60q: a number is there twice", array)
	}
	return indexes, most, nil
}

// Ranges prints ascending numbers as Indexes reads them, with runs drawn together: "0-3,6".
func Ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		part := strconv.Itoa(list[i])
		if k > i {
			part += "-" + strconv.Itoa(list[k])
		}
		parts, i = append(parts, part), k+1
	}
	return strings.Join(parts, ",")
}

// arrayRange reads "7", "0-9" or "0-90:10".
func arrayRange(text string) (from, to, step int, ok bool) {
	span, by, stepped := strings.Cut(text, ":")
	low, high, ranged := strings.Cut(span, "-")
	step = 1
	from, err := arrayIndex(low)
	if to = from; ranged && err == nil {
		to, err = arrayIndex(high)
	}
	if stepped && err == nil {
		step, err = arrayIndex(by)
	}
	return from, to, step, err == nil && from <= to && step > 0 && (ranged || !stepped)
}

func arrayIndex(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil && n > maxArrayIndex {
		err = fmt.Errorf("more than %d", maxArrayIndex)
	}
	return int(n), err
}

// Expand returns the jobs of an array; of a job that is none, the job itself. The id of
// the array is filled in by the daemon.
func (s *Submission) Expand() ([]Submission, error) {
	if s.Array == "" {
		return []Submission{*s}, nil
	}
	indexes, most, err := Indexes(s.Array)
	if err != nil {
		return nil, err
	}
	out := make([]Submission, len(indexes))
	for i, index := range indexes {
		out[i] = *s
		out[i].Array = ""
		out[i].Member = &Member{Index: index, Of: len(indexes), Most: most}
		if s.Key != "" {
			out[i].Key = fmt.Sprintf("%s/%d", s.Key, index)
		}
	}
	return out, nil
}
