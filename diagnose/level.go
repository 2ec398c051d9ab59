// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"regexp"
	"strings"
)

var levelWords = map[string]level{
	"TRACE": low, "DEBUG": low, "INFO": low,
	"WARN": warning, "WARNING": warning,
	"ERROR": serious, "ERR": serious, "FATAL": serious, "CRITICAL": serious, "SEVERE": serious,
}

// levelOf returns how serious a line calls itself, in one of the usual ways:
// a word in capitals, glog's letter, level=word, a field of JSON, or Python's
// warnings.
func levelOf(s string) level {
	const reach = 80 // bytes: further on the words belong to the message
	if strings.HasPrefix(s, "{") {
		return jsonLevel(s)
	}
	head := s[:min(len(s), reach)]
	if strings.Contains(head, "NCCL WARN") { // NCCL's word for an error
		return serious
	}
	for i := 0; i < len(head); i++ {
		if !capital(head[i]) {
			continue
		}
		end := i
		for end < len(head) && capital(head[end]) {
			end++
		}
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = head[i-1]
		}
		if end < len(head) {
			after = head[end]
		}
		if strings.IndexByte(" [(|:-<\t", before) >= 0 && strings.IndexByte(" ])|:->\t,", after) >= 0 {
			if l, ok := levelWords[head[i:end]]; ok {
				return l
			}
		}
		if end == i+1 && strings.IndexByte(" [:", before) >= 0 && (looksLike(head[end:], "0000 00:00:00") || looksLike(head[end:], "000 00:00:00")) {
			switch head[i] {
			case 'I':
				return low
			case 'W':
				return warning
			case 'E', 'F':
				return serious
			}
		}
		i = end
	}
	return wordLevel(head)
}

func capital(c byte) bool { return c >= 'A' && c <= 'Z' }

// wordLevel looks for levels in lower case.
func wordLevel(head string) level {
	if _, after, ok := strings.Cut(head, "level="); ok {
		word := strings.ToUpper(strings.TrimLeft(after, `"`))
		for name, l := range levelWords { // one at most begins the word, or two of the same level
			if strings.HasPrefix(word, name) {
				return l
			}
		}
	}
	switch {
	case strings.HasPrefix(head, "warning: "), strings.HasPrefix(head, "Warning: "), strings.Contains(head, "Warning: "):
		return warning
	}
	return noLevel
}

// jsonLevel reads the level of a line that is a JSON object.
func jsonLevel(s string) level {
	for _, key := range []string{`"level"`, `"severity"`, `"levelname"`, `"lvl"`} {
		_, after, ok := strings.Cut(s, key)
		if !ok {
			continue
		}
		value := strings.TrimLeft(after, ` :"`)
		word, _, _ := strings.Cut(value[:min(len(value), 20)], `"`)
		if l, ok := levelWords[strings.ToUpper(word)]; ok {
			return l
		}
	}
	return low // data, until it says something else
}

var (
	// metric is a number that is called an error.
	metric = regexp.MustCompile(`(?i)\b(?:\w*err(?:or)?s?(?:[_ ]rate)?["']?\s*[:=]?\s*[-0-9.]+(?:e-?[0-9]+)?\b|[0-9.]+ ?%? (?:errors?|failed|failures)\b|(?:mean|squared|absolute|mse|mae|error[_ ]rate)\b[^:=]{0,20}[:=])`)
	// complaint is what unknown errors have in common.
	complaint = regexp.MustCompile(`(?i)\b(?:error|exception|fatal|failed|failure|abort(?:ed|ing)?|panic|killed|cannot|can't|could not|unable to|not found|denied|invalid|refused|crash(?:ed)?|terminated)\b|[a-z](?:Error|Exception)\b`)
)

// complains reports whether a line looks like an error that no signature knows.
func complains(s string) bool {
	return complaint.MatchString(s) && complaint.MatchString(metric.ReplaceAllString(s, ""))
}

var progressWords = []string{"epoch", "step", "iter", "it/s", "s/it", "loss", "samples/s", "tokens/s", "img/s", "batch"}

// progresses reports whether a line shows that training goes on.
func progresses(s string) bool {
	if !strings.ContainsAny(s, "0123456789") {
		return false
	}
	lower := strings.ToLower(s[:min(len(s), 200)])
	for _, w := range progressWords {
		if strings.Contains(lower, w) {
			return !complains(s)
		}
	}
	return false
}
