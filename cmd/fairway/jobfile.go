// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon"
	"github.com/fairway-gpu/fairway/daemon/strictyaml"
	"github.com/fairway-gpu/fairway/sched"
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
	text, err := strictyaml.Read(in)
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
			return nil, strictyaml.In(name, err)
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
	if len(docs) > 1 || !strictyaml.HasKey(docs[0], "jobs") && !strictyaml.HasKey(docs[0], "search") {
		jobs, err := parseJobs(name, text)
		return appFile{Jobs: jobs}, err
	}
	var app appFile
	if strictyaml.HasKey(docs[0], "search") {
		if app.Search, err = parseSearch(docs[0]); err != nil {
			return appFile{}, strictyaml.In(name, err)
		}
		app.ID = app.Search.ID
		return app, nil
	}
	err = strictyaml.EachKey(docs[0], "", map[string]bool{"id": true, "jobs": true}, func(key string, value *yaml.Node) error {
		if key == "id" {
			return strictyaml.Fill(value, &app.ID, key)
		}
		if value.Kind != yaml.SequenceNode {
			return strictyaml.FaultAt(value, key, "is %s; want a list of jobs", strictyaml.Describe(value))
		}
		app.Jobs = make([]api.Submission, min(len(value.Content), api.MaxSubmit))
		if len(value.Content) > api.MaxSubmit {
			return strictyaml.FaultAt(value, key, "has %d entries; want at most %d", len(value.Content), api.MaxSubmit)
		}
		for i, item := range value.Content {
			if err := fillJob(item, &app.Jobs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return appFile{}, strictyaml.In(name, err)
	}
	if len(app.Jobs) == 0 {
		return appFile{}, fmt.Errorf("%s: jobs is empty; an app needs at least one", name)
	}
	return app, nil
}

// documents returns the documents of a file, at least one.
func documents(name string, text []byte) ([]*yaml.Node, error) {
	docs, err := strictyaml.Documents(text)
	switch {
	case err != nil:
	case len(docs) == 0:
		err = errors.New("contains no job; see docs/job-file.md for an example")
	case len(docs) > api.MaxSubmit:
		err = fmt.Errorf("more than %d documents; split it", api.MaxSubmit)
	}
	if err != nil {
		return nil, strictyaml.In(name, err)
	}
	return docs, nil
}

// noSearch says where a search belongs: it is an app that chooses its trials.
func noSearch(n *yaml.Node) error {
	if !strictyaml.HasKey(n, "search") {
		return nil
	}
	return strictyaml.FaultAt(n, "search", "is not a job field; put the search into its own document and use \"fairway app submit\"")
}

// daemonFills are the fields of a submission that a file may not set.
var daemonFills = map[string]string{
	"id": "use name, or key to submit only once", "submitted": "use name, or key to submit only once", "protected": "use preemptible",
	"secrets_ref": "name the variables in secrets", "member": "use array", "predicted": "name the graph",
}

// noObject tells those who have an object of Kubernetes where it goes.
func noObject(n *yaml.Node) error {
	if strictyaml.HasKey(n, "apiVersion") && strictyaml.HasKey(n, "kind") {
		return strictyaml.FaultAt(n, "the file", "is a Kubernetes object; create it with kubectl apply -f, or write a job file (docs/job-file.md)")
	}
	return nil
}

// fillJob reads a job from a mapping.
func fillJob(n *yaml.Node, s *api.Submission) error {
	if err := errors.Join(noSearch(n), noObject(n)); err != nil {
		return err
	}
	fields := strictyaml.Fields(reflect.ValueOf(s).Elem())
	fields["share"] = fields["shareable"]
	var ranged bool
	err := strictyaml.EachKey(n, "", fields, func(key string, value *yaml.Node) error {
		if instead := daemonFills[key]; instead != "" {
			return strictyaml.FaultAt(value, key, "is assigned by the daemon; remove it (%s)", instead)
		}
		if key == "secret_values" {
			return strictyaml.FaultAt(value, key, "does not belong into a file; name the variables in secrets, and set them in the shell that submits")
		}
		if key == "gpus" && value.Kind == yaml.ScalarNode && strings.Contains(value.Value, "-") {
			ranged = true
			if err := setGPUs(s, value.Value); err != nil {
				return strictyaml.FaultAt(value, key, "%w", err)
			}
			return nil
		}
		if list, ok := fields[key].Addr().Interface().(*[]string); ok && (key == "depends_on" || key == "notify") && value.Kind == yaml.ScalarNode {
			*list = make([]string, 1) // one needs no brackets
			return strictyaml.Fill(value, &(*list)[0], key)
		}
		if key == "memory" || key == "gpu_memory" {
			return fillSize(value, fields[key].Addr().Interface().(*int64), key)
		}
		if key == "roles" && value.Kind == yaml.SequenceNode {
			return fillRoles(value, &s.Roles)
		}
		return strictyaml.Fill(value, fields[key].Addr().Interface(), key)
	})
	if err == nil && ranged && (strictyaml.HasKey(n, "min_gpus") || strictyaml.HasKey(n, "max_gpus")) {
		return strictyaml.FaultAt(n, "gpus", "is a range, and min_gpus or max_gpus is set too; want one or the other")
	}
	return err
}

// fillRoles reads the roles of a job.
func fillRoles(n *yaml.Node, roles *[]api.JobRole) error {
	if len(n.Content) > api.MaxRoles {
		return strictyaml.FaultAt(n, "roles", "has %d entries; want at most %d", len(n.Content), api.MaxRoles)
	}
	*roles = make([]api.JobRole, len(n.Content))
	for i, item := range n.Content {
		r, path := &(*roles)[i], fmt.Sprintf("roles[%d]", i)
		fields := strictyaml.Fields(reflect.ValueOf(r).Elem())
		err := strictyaml.EachKey(item, path, fields, func(key string, value *yaml.Node) error {
			path := strictyaml.Join(path, key)
			if key != "gpus" || value.Kind != yaml.ScalarNode || !strings.Contains(value.Value, "-") {
				return strictyaml.Fill(value, fields[key].Addr().Interface(), path)
			}
			if strictyaml.HasKey(item, "max_gpus") {
				return strictyaml.FaultAt(value, path, "is a range, and max_gpus is set too; want one or the other")
			}
			var err error
			if r.GPUs, r.MaxGPUs, err = parseGPUs(value.Value); err != nil {
				return strictyaml.FaultAt(value, path, "%w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fillSize reads a number of bytes, with or without a unit.
func fillSize(n *yaml.Node, v *int64, path string) error {
	var size daemon.Size
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		if err := strictyaml.Fill(n, v, path); err == nil || n.Kind != yaml.ScalarNode {
			return err
		}
	} else if size.UnmarshalText([]byte(n.Value)) == nil {
		*v = int64(size)
		return nil
	}
	return strictyaml.FaultAt(n, path, "is %.40q; want %s", n.Value, daemon.SizeForm)
}

// setGPUs reads "4" or "1-8". Of a range the smallest size stands for what the
// user would have guessed: a policy that does not resize can always start it.
func setGPUs(s *api.Submission, text string) error {
	n, most, err := parseGPUs(text)
	if err != nil {
		return err
	}
	s.GPUs, s.MinGPUs, s.MaxGPUs = n, 0, 0
	if most > 0 {
		s.MinGPUs, s.MaxGPUs = n, most
	}
	return nil
}

// parseGPUs reads "4", or "1-8"; most is 0 if it is no range.
func parseGPUs(text string) (least, most int, err error) {
	low, high, ranged := strings.Cut(text, "-")
	least, err = strconv.Atoi(strings.TrimSpace(low))
	if ranged && err == nil {
		most, err = strconv.Atoi(strings.TrimSpace(high))
	}
	if err != nil || least < 1 || ranged && most < least {
		return 0, 0, fmt.Errorf("%.40q is not a number of GPUs; want one such as 4, or a range such as 1-8", text)
	}
	return least, most, nil
}
