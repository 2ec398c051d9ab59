// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// FlagshipConfig says what to measure.
type FlagshipConfig struct {
	Policy string // that is judged: fairway, or one that stands in for it
	// Data holds the folders of published data, by the names of FlagshipData. Parts
	// that need one that is not here are not run, and say so.
	Data  map[string]fs.FS
	Only  []string // parts; none: all
	Seeds int      // generated workloads of each kind
	// Scale divides the jobs of generated workloads, for a quick look.
	Scale   int
	Workers int // runs at a time
	// Progress, if set, is called when a run begins, and Done after each part with what
	// there is so far. No two calls overlap.
	Progress func(run string)
	Done     func(*Flagship) error
}

// DefaultFlagship judges fairway on two generated workloads of each kind.
func DefaultFlagship() FlagshipConfig {
	return FlagshipConfig{Policy: "fairway", Seeds: 2, Scale: 1, Workers: runtime.NumCPU()}
}

// FlagshipData are the data that parts read, and what each is.
var FlagshipData = []struct{ Name, About string }{
	{"pollux", "simulator folder of the Pollux artifact"},
	{"sia", "simulator folder of the Sia artifact"},
	{"shockwave", "scheduler folder of the Shockwave artifact"},
	{"gavel", "scheduler folder of the Gavel artifact"},
	{"philly", "folder with philly_jobs_reconstructed.csv, a table of Philly's jobs"},
}

// Flagship is what fairway must show, and what it shows.
type Flagship struct {
	Config FlagshipConfig
	Parts  []FlagshipPart
}

// FlagshipPart is a setting with its runs and claims.
type FlagshipPart struct {
	Name, Title string
	About       string // the setting
	Commands    []string
	Head        []string
	Rows        [][]string
	Claims      []Claim
	NotRun      []string // why something is missing
	plot        Plot     // nil: none
}

// flagshipParts are on the page in this order.
var flagshipParts = []struct {
	name, title string
	needs       string // data without which nothing is run
	run         func(*flagship, *FlagshipPart) error
}{
	{"pollux", "The Pollux workloads", "pollux", (*flagship).polluxPart},
	{"default", "The same without --optimistic", "pollux", (*flagship).defaultPart},
	{"restarts", "The same with restarts of 3 s", "pollux", (*flagship).restartsPart},
	{"load", "Twice and half the load", "pollux", (*flagship).loadPart},
	{"rho", "Finish-time fairness", "pollux", (*flagship).rhoPart},
	{"streams", "Adversarial streams", "", (*flagship).streamsPart},
	{"plain", "Jobs without agents", "", (*flagship).plainPart},
	{"sia", "Sia's mixed cluster", "sia", (*flagship).siaPart},
	{"themis", "The Themis app mix", "", (*flagship).themisPart},
	{"sharing", "A light mix that shares", "", (*flagship).sharingPart},
	{"traces", "Traces of rigid jobs", "", (*flagship).tracesPart},
	{"ablations", "What each part brings", "", (*flagship).ablationsPart},
}

// FlagshipParts are the names for Only.
func FlagshipParts() []string {
	var names []string
	for _, p := range flagshipParts {
		names = append(names, p.name)
	}
	return names
}

// flagship is a measurement in progress.
type flagship struct {
	FlagshipConfig
	out   *Flagship
	slots chan tables // one for each run at a time
	mu    sync.Mutex  // guards out and runs
	runs  map[trial]func() (*sim.Result, error)
}

// tables are measured tables by the data they are from. They remember what they were
// asked, so that runs at the same time must not share them.
type tables map[string]*profile.Tables

// RunFlagship runs the parts, all at once: what they have in common is run once.
func RunFlagship(c FlagshipConfig) (*Flagship, error) {
	f := newFlagship(c)
	for _, p := range flagshipParts {
		f.out.Parts = append(f.out.Parts, FlagshipPart{Name: p.name, Title: p.title, NotRun: []string{"the run has not come to it"}})
	}
	err := each("flagship", len(flagshipParts), len(flagshipParts), nil, func(i int) error {
		p := flagshipParts[i]
		part := FlagshipPart{Name: p.name, Title: p.title}
		switch {
		case len(c.Only) > 0 && !slices.Contains(c.Only, p.name):
			part.NotRun = []string{"not chosen by --only"}
		case p.needs != "" && c.Data[p.needs] == nil:
			part.needs(p.needs)
		default:
			if err := p.run(f, &part); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.out.Parts[i] = part
		if c.Done != nil {
			return c.Done(f.out)
		}
		return nil
	})
	return f.out, err
}

func newFlagship(c FlagshipConfig) *flagship {
	f := &flagship{FlagshipConfig: c, out: &Flagship{Config: c}, slots: make(chan tables, max(1, c.Workers)), runs: map[trial]func() (*sim.Result, error){}}
	for range cap(f.slots) {
		f.slots <- tables{}
	}
	return f
}

// needs says that something was not run because data are missing.
func (p *FlagshipPart) needs(data string) {
	p.NotRun = append(p.NotRun, "needs --"+data)
}

func (p *FlagshipPart) row(cells ...any) {
	var row []string
	for _, c := range cells {
		switch c := c.(type) {
		case float64:
			row = append(row, fmt.Sprintf("%.0f", c))
		default:
			row = append(row, fmt.Sprint(c))
		}
	}
	p.Rows = append(p.Rows, row)
}

func (p *FlagshipPart) claim(c ...Claim) { p.Claims = append(p.Claims, c...) }

// against compares figures of the flagship with those of another policy, workload by
// workload.
type against struct {
	ours, theirs []float64
	unit         float64 // seconds of the unit that is printed
	digits       int     // behind the point
	name         string  // of the unit
}

func (a *against) add(ours, theirs float64) {
	a.ours, a.theirs = append(a.ours, ours), append(a.theirs, theirs)
}

// mean and worst are over the ratios of all workloads.
func (a *against) mean() (mean float64) {
	for i := range a.ours {
		mean += a.ours[i] / a.theirs[i] / float64(len(a.ours))
	}
	return mean
}

func (a *against) worst() (worst float64) {
	for i := range a.ours {
		worst = max(worst, a.ours[i]/a.theirs[i])
	}
	return worst
}

// atMost claims that a ratio is at most a bound, and shows both figures.
func (a *against) atMost(what string, ratio, bound float64) Claim {
	return Claim{
		What: what, Want: fmt.Sprintf("%.2f or less", bound),
		Ours:  fmt.Sprintf("%.3f (%s against %s%s)", ratio, a.list(a.ours), a.list(a.theirs), a.name),
		Holds: ratio <= bound,
	}
}

// list prints figures in the unit.
func (a *against) list(x []float64) string {
	var out []string
	for _, v := range x {
		out = append(out, fmt.Sprintf("%.*f", a.digits, v/a.unit))
	}
	return strings.Join(out, ", ")
}

func inSeconds() *against { return &against{unit: 1, name: " s"} }
func inHours() *against   { return &against{unit: 3600, digits: 2, name: " h"} }
