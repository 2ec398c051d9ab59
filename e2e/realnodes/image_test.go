// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package realnodes

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/kube/kubetest"
)

// dockerfile is the content of a Dockerfile with two stages: one that builds programs
// into /out, and one that copies them into an empty image.
type dockerfile struct {
	env   []string // of the build, with the defaults of arguments
	build string   // the command that builds the programs
	image kubetest.Image
}

// parseDockerfile understands our Dockerfile, and refuses anything else.
func parseDockerfile(text string) (dockerfile, error) {
	d := dockerfile{image: kubetest.Image{Files: map[string]string{}, Bare: true}}
	last := false // the stage that becomes the image
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch {
		case word == "" || word == "#" || word == "WORKDIR" || word == "LABEL":
		case word == "FROM":
			last = rest == "scratch"
		case !last && (word == "ENV" || word == "ARG"):
			if strings.Contains(rest, "=") {
				d.env = append(d.env, rest)
			}
		case !last && word == "RUN" && strings.Contains(rest, "go build"):
			d.build = rest
		case !last: // sources and modules: both are here
		case word == "COPY":
			err = d.copy(strings.Fields(rest))
		case word == "USER":
			d.image.User = rest
		case word == "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &d.image.Entrypoint)
		case word == "CMD":
			err = json.Unmarshal([]byte(rest), &d.image.Cmd)
		default:
			err = fmt.Errorf("the word %q is not known here", word)
		}
		if err != nil {
			return d, fmt.Errorf("read %q of the Dockerfile: %w", strings.TrimSpace(line), err)
		}
	}
	return d, nil
}

// copy records which files of the build go where.
func (d *dockerfile) copy(words []string) error {
	if len(words) < 3 || words[0] != "--from=build" {
		return fmt.Errorf("want --from=build, files and where they go")
	}
	from, to := words[1:len(words)-1], words[len(words)-1]
	for _, f := range from {
		name := to
		if strings.HasSuffix(to, "/") {
			name = to + path.Base(f)
		}
		d.image.Files[name] = f
	}
	return nil
}

func TestParseDockerfile(t *testing.T) {
	got, err := parseDockerfile("# Words\nFROM go AS build\nARG X\nARG Y=2\nCOPY . .\nRUN go mod download\nENV A=1\nRUN go build -o /out/ ./x\n\nFROM scratch\nLABEL a=b\nCOPY --from=build /etc/c /etc/d\nCOPY --from=build /out/x /out/y /\nUSER 5:6\nENTRYPOINT [\"/x\"]\nCMD [\"run\"]\n")
	want := dockerfile{env: []string{"Y=2", "A=1"}, build: "go build -o /out/ ./x", image: kubetest.Image{
		Files: map[string]string{"/etc/d": "/etc/c", "/x": "/out/x", "/y": "/out/y"}, User: "5:6", Entrypoint: []string{"/x"}, Cmd: []string{"run"}, Bare: true,
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(dockerfile{})); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"FROM scratch\nVOLUME /x\n", "FROM scratch\nCOPY a b\n", "FROM scratch\nCMD run\n"} {
		if _, err := parseDockerfile(text); err == nil {
			t.Errorf("%q is taken; want an error", text)
		}
	}
}

// buildImage builds the image of deploy/Dockerfile, with the same build command. It
// needs no registry: only certificates come from the first stage's base image, and this
// machine's are used instead, if it has any.
func buildImage(ctx context.Context, root, folder string) (kubetest.Image, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	if err != nil {
		return kubetest.Image{}, fmt.Errorf("read Dockerfile: %w", err)
	}
	d, err := parseDockerfile(string(text))
	if err != nil {
		return kubetest.Image{}, err
	}
	build := exec.CommandContext(ctx, "sh", "-ec", strings.ReplaceAll(d.build, "/out/", folder+"/"))
	build.Dir = root
	build.Env = append(append(os.Environ(), "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH), d.env...)
	if out, err := build.CombinedOutput(); err != nil {
		return kubetest.Image{}, fmt.Errorf("build programs: %w: %s", err, out)
	}
	for name, source := range d.image.Files {
		if program, ok := strings.CutPrefix(source, "/out/"); ok {
			d.image.Files[name] = filepath.Join(folder, program)
		} else if _, err := os.Stat(source); err != nil {
			delete(d.image.Files, name)
		}
	}
	return d.image, nil
}
