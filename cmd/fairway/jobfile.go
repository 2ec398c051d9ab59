// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// The limits of a job file.
const (
	maxJobFile   = 1 << 20 // bytes
	maxDocuments = api.MaxSubmit
)

// readJobFile reads a file of jobs; "-" is the standard input.
func readJobFile(path string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read job file: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxJobFile+1))
	if err != nil {
		return nil, fmt.Errorf("read job file: %w", err)
	}
	return text, nil
}

// parseJobs reads the jobs of a file, one for each YAML document.
func parseJobs(name string, text []byte) ([]api.Submission, error) {
	docs, err := documents(name, text)
	if err != nil {
		return nil, err
	}
	jobs := make([]api.Submission, len(docs))
	for i, doc := range docs {
		if err := fillJob(doc, &jobs[i]); err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
	}
	return jobs, nil
}

// appFile is a file of jobs that belong together.
type appFile struct {
	ID     sched.AppID
	Jobs   []api.Submission
	Search *api.SearchSpec // instead of jobs
}

// parseApp reads an app: one document with id and jobs, one with a search, or one
// document for each job.
func parseApp(name string, text []byte) (appFile, error) {
	docs, err := documents(name, text)
	if err != nil {
		return appFile{}, err
	}
	if len(docs) > 1 || !hasKey(docs[0], "jobs") && !hasKey(docs[0], "search") {
		jobs, err := parseJobs(name, text)
		return appFile{Jobs: jobs}, err
	}
	var app appFile
	if hasKey(docs[0], "search") {
		if app.Search, err = parseSearch(docs[0]); err != nil {
			return appFile{}, fmt.Errorf("%s:%w", name, err)
		}
		app.ID = app.Search.ID
		return app, nil
	}
	err = eachKey(docs[0], "", []string{"id", "jobs"}, func(key string, value *yaml.Node) error {
		if key == "id" {
			return fill(value, reflect.ValueOf(&app.ID).Elem(), key)
		}
		if value.Kind != yaml.SequenceNode {
			return faultAt(value, key, "is %s; want a list of jobs", describe(value))
		}
		app.Jobs = make([]api.Submission, min(len(value.Content), maxDocuments))
		if len(value.Content) > maxDocuments {
			return faultAt(value, key, "has %d entries; want at most %d", len(value.Content), maxDocuments)
		}
		for i, item := range value.Content {
			if err := fillJob(item, &app.Jobs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return appFile{}, fmt.Errorf("%s:%w", name, err)
	}
	if len(app.Jobs) == 0 {
		return appFile{}, fmt.Errorf("%s: jobs is empty; an app needs at least one", name)
	}
	return app, nil
}

// documents splits a file. Documents that hold nothing are left out.
func documents(name string, text []byte) ([]*yaml.Node, error) {
	if len(text) > maxJobFile {
		return nil, fmt.Errorf("%s: larger than %d bytes; split it", name, maxJobFile)
	}
	var docs []*yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if n.Kind != yaml.DocumentNode || len(n.Content) != 1 || n.Content[0].ShortTag() == "!!null" {
			continue
		}
		if docs = append(docs, n.Content[0]); len(docs) > maxDocuments {
			return nil, fmt.Errorf("%s: more than %d documents; split it", name, maxDocuments)
		}
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: contains no job; see docs/job-file.md for an example", name)
	}
	return docs, nil
}

func hasKey(n *yaml.Node, key string) bool {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// noSearch says where a search belongs: it is an app that chooses its trials.
func noSearch(n *yaml.Node) error {
	if !hasKey(n, "search") {
		return nil
	}
	return faultAt(n, "search", "is not a job field; put the search into its own document and use \"fairway app submit\"")
}

// daemonFills are the fields of a submission that a file may not set.
var daemonFills = []string{"id", "submitted"}

// noObject tells those who have an object of Kubernetes where it goes.
func noObject(n *yaml.Node) error {
	if hasKey(n, "apiVersion") && hasKey(n, "kind") {
		return faultAt(n, "the file", "is a Kubernetes object; create it with kubectl apply -f, or write a job file (docs/job-file.md)")
	}
	return nil
}

// fillJob reads a job from a mapping.
func fillJob(n *yaml.Node, s *api.Submission) error {
	if err := errors.Join(noSearch(n), noObject(n)); err != nil {
		return err
	}
	fields := fieldsOf(reflect.ValueOf(s).Elem())
	fields["share"] = fields["shareable"]
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	var ranged bool
	err := eachKey(n, "", names, func(key string, value *yaml.Node) error {
		for _, name := range daemonFills {
			if key == name {
				return faultAt(value, key, "is assigned by the daemon; remove it (use name, or key to submit only once)")
			}
		}
		if key == "gpus" && value.Kind == yaml.ScalarNode && strings.Contains(value.Value, "-") {
			ranged = true
			if err := setGPUs(s, value.Value); err != nil {
				return faultAt(value, key, "%w", err)
			}
			return nil
		}
		if key == "memory" || key == "gpu_memory" {
			return fillSize(value, fields[key], key)
		}
		return fill(value, fields[key], key)
	})
	if err == nil && ranged && (hasKey(n, "min_gpus") || hasKey(n, "max_gpus")) {
		return faultAt(n, "gpus", "is a range, and min_gpus or max_gpus is set too; want one or the other")
	}
	return err
}

// fillSize reads a number of bytes, with or without a unit.
func fillSize(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return fill(n, v, path)
	}
	var size sizeText
	if err := size.UnmarshalJSON([]byte(n.Value)); err != nil {
		return faultAt(n, path, "is %.40q; want a number of bytes, or one with KiB, MiB, GiB or TiB", n.Value)
	}
	v.SetInt(int64(size))
	return nil
}

// setGPUs reads "4" or "1-8". Of a range the smallest size stands for what the
// user would have guessed: a policy that does not resize can always start it.
func setGPUs(s *api.Submission, text string) error {
	low, high, ranged := strings.Cut(text, "-")
	n, err := strconv.Atoi(strings.TrimSpace(low))
	most := n
	if ranged && err == nil {
		most, err = strconv.Atoi(strings.TrimSpace(high))
	}
	if err != nil || n < 1 || most < n {
		return fmt.Errorf("%.40q is not a number of GPUs; want one such as 4, or a range such as 1-8", text)
	}
	s.GPUs, s.MinGPUs, s.MaxGPUs = n, 0, 0
	if ranged {
		s.MinGPUs, s.MaxGPUs = n, most
	}
	return nil
}
