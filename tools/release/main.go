// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command release puts programs that are built already into the forms in which people
// get them: an archive, a Python wheel, an OCI image, the chart, a bill of materials and
// checksums. The same programs and sources give the same bytes: times are those of
// SOURCE_DATE_EPOCH, and the order of files is that of their names. "make release" calls
// it.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is what all forms of one release have in common.
type release struct {
	version  string
	arch     string // as Go names it
	revision string
	programs string // folder of the programs
	root     string // of the repository
	out      string // folder to write to
	certs    string // file of CA certificates for the image
	time     time.Time
}

// programNames are the programs of a release.
var programNames = []string{"fairway", "fairway-cuda", "fairway-operator"}

var forms = map[string]func(release) (string, error){
	"programs": writePrograms,
	"wheel":    writeWheel,
	"image":    writeImage,
	"chart":    writeChart,
	"sbom":     writeSBOM,
	"sums":     writeSums,
}

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "of the release, such as 0.2.0")
	flag.StringVar(&r.arch, "arch", "amd64", "architecture of the programs: amd64 or arm64")
	flag.StringVar(&r.revision, "revision", "", "commit that the release is built from")
	flag.StringVar(&r.programs, "programs", "bin", "`folder` of the programs")
	flag.StringVar(&r.root, "root", ".", "`folder` of the repository")
	flag.StringVar(&r.out, "out", "out/release", "`folder` to write to")
	flag.StringVar(&r.certs, "certs", "/etc/ssl/certs/ca-certificates.crt", "`file` of CA certificates for the image")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [flags] FORM ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(r, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func known() string { return strings.Join(slices.Sorted(maps.Keys(forms)), ", ") }

func run(r release, names []string) error {
	if r.version == "" || len(names) == 0 {
		return fmt.Errorf("name a -version and at least one of %s", known())
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH = %q; want seconds since 1970, such as those of the commit", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	r.time = time.Unix(epoch, 0).UTC()
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		form, ok := forms[name]
		if !ok {
			return fmt.Errorf("unknown form %q; want %s", name, known())
		}
		file, err := form(r)
		if err != nil {
			return fmt.Errorf("make the %s: %w", name, err)
		}
		fmt.Println(filepath.Join(r.out, file))
	}
	return nil
}
