// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// The Pollux artifact's cluster, and the policy that the flagship is compared with.
const (
	polluxCluster = "16x4"
	polluxPolicy  = "pollux"
)

// asReference is the setting of the artifact's simulator.
var asReference = setting{cluster: polluxCluster, tables: "pollux", optimistic: true}

// polluxCommand is the command of a part, with more flags.
func (f *flagship) polluxCommand(folder, policies, flags string) string {
	return fmt.Sprintf("fairway sim --workload POLLUX/%s/workload-N.csv --format pollux --policy %s --cluster %s --profiles POLLUX/traces%s --json", folder, policies, polluxCluster, flags)
}

// both runs the flagship and another policy on every workload of a folder.
func (f *flagship) both(p *FlagshipPart, folder, other string, s setting) (ours, theirs []*sim.Result, names []string, err error) {
	places, err := f.files("pollux", folder+"/workload-*.csv", "pollux", s)
	if err != nil {
		return nil, nil, nil, err
	}
	results, err := f.compare(p, places, other, f.Policy)
	if err != nil {
		return nil, nil, nil, err
	}
	for i, res := range results {
		ours, theirs = append(ours, res[1]), append(theirs, res[0])
		names = append(names, strings.TrimSuffix(path.Base(places[i].file), ".csv"))
	}
	return ours, theirs, names, nil
}

// reference is the average JCT of the artifact's own Pollux at load 1.
func (f *flagship) reference(names []string) ([]float64, error) {
	a := Artifact{data: f.Data["pollux"]}
	results, err := a.summary("results-jobload/pollux-1.0")
	if err != nil {
		return nil, err
	}
	var out []float64
	for _, name := range names {
		sum, n := 0.0, 0.0
		for _, jct := range results[name] {
			sum, n = sum+jct, n+1
		}
		if n == 0 {
			return nil, fmt.Errorf("the reference has no results for %s", name)
		}
		out = append(out, sum/n)
	}
	return out, nil
}

func avgJCT(r *sim.Result) float64   { return r.AvgJCT }
func p99JCT(r *sim.Result) float64   { return r.P99JCT }
func makespan(r *sim.Result) float64 { return r.Makespan }
func topRho(r *sim.Result) float64   { return r.MaxRho }

// compareBy pairs a figure of two lists of runs.
func compareBy(ours, theirs []*sim.Result, figure func(*sim.Result) float64) *against {
	a := inSeconds()
	for i := range ours {
		a.add(figure(ours[i]), figure(theirs[i]))
	}
	return a
}

func (f *flagship) polluxPart(p *FlagshipPart) error {
	p.About = "The workloads of the Pollux artifact with its measured tables and the reference's own simplifications (30 s for each restart, an exact noise scale), for all policies alike. The reference is the artifact's result of its own Pollux."
	p.Commands = []string{f.polluxCommand(tuned, f.Policy, " --optimistic")}
	ours, theirs, names, err := f.both(p, tuned, polluxPolicy, asReference)
	if err != nil {
		return err
	}
	reference, err := f.reference(names)
	if err != nil {
		return err
	}
	ref := inSeconds()
	for i, jct := range reference {
		ref.add(ours[i].AvgJCT, jct)
		p.row(tuned+"/"+names[i], "the reference's Pollux", hours(jct), "-", "-", "-", "-")
	}
	tail, span := compareBy(ours, theirs, p99JCT), compareBy(ours, theirs, makespan)
	p.claim(
		ref.atMost("average JCT over that of the reference's Pollux, mean", ref.mean(), 0.80),
		ref.atMost("the same, on each workload", ref.worst(), 0.90),
		tail.atMost("p99 over that of `pollux`, each", tail.worst(), 1.03),
		span.atMost("makespan over that of `pollux`, each", span.worst(), 1.03),
	)
	return nil
}

func (f *flagship) defaultPart(p *FlagshipPart) error {
	p.About = "Restarts by model and number of nodes, a stop loses the step in progress, and agents know the noise scale as an average."
	p.Commands = []string{f.polluxCommand(tuned, f.Policy+","+polluxPolicy, "")}
	s := asReference
	s.optimistic = false
	ours, theirs, _, err := f.both(p, tuned, polluxPolicy, s)
	if err != nil {
		return err
	}
	jct := compareBy(ours, theirs, avgJCT)
	p.claim(jct.atMost("without `--optimistic`: average JCT over that of `pollux`, mean", jct.mean(), 0.85))
	return nil
}

func (f *flagship) restartsPart(p *FlagshipPart) error {
	p.About = "What jobs that are suspended or resized in place would give. `pollux` is told what a restart costs."
	p.Commands = []string{f.polluxCommand(tuned, f.Policy+","+polluxPolicy+":restart=3s", " --optimistic --restart 3s")}
	s := asReference
	s.restart = 3 * time.Second
	ours, theirs, names, err := f.both(p, tuned, polluxPolicy+":restart=3s", s)
	if err != nil {
		return err
	}
	reference, err := f.reference(names)
	if err != nil {
		return err
	}
	ref := inSeconds()
	for i := range ours {
		ref.add(ours[i].AvgJCT, reference[i])
	}
	jct := compareBy(ours, theirs, avgJCT)
	p.claim(
		ref.atMost("restarts of 3 s: average JCT over that of the reference's Pollux (30 s), mean", ref.mean(), 0.75),
		jct.atMost("the same over `pollux` with restarts of 3 s", jct.mean(), 1),
	)
	return nil
}

func (f *flagship) loadPart(p *FlagshipPart) error {
	p.About = "The artifact's workloads of twice and of half the jobs in the same time."
	for _, load := range []struct {
		folder, name string
		bound        float64
	}{{"workloads-2.0", "twice the load", 0.80}, {"workloads-0.5", "half the load", 0.92}} {
		p.Commands = append(p.Commands, f.polluxCommand(load.folder, f.Policy+","+polluxPolicy, " --optimistic"))
		ours, theirs, _, err := f.both(p, load.folder, polluxPolicy, asReference)
		if err != nil {
			return err
		}
		jct := compareBy(ours, theirs, avgJCT)
		p.claim(jct.atMost(load.name+": average JCT over that of `pollux`, mean", jct.mean(), load.bound))
	}
	return nil
}

func (f *flagship) rhoPart(p *FlagshipPart) error {
	p.About = "The largest rho of a job, with T_independent from its own curve of speed. Lengths are what jobs declare: right, wrong by a factor of e^N(0, 1) drawn for each job and seed, and none."
	p.Commands = []string{
		f.polluxCommand(tuned, f.Policy+","+polluxPolicy, " --optimistic"),
		f.polluxCommand(tuned, f.Policy+","+polluxPolicy, " --optimistic --length-error 1 --seed S"),
		f.polluxCommand(tuned, f.Policy+","+polluxPolicy, " --optimistic --no-lengths"),
	}
	for _, x := range []struct {
		name  string
		wrong float64
		none  bool
		seeds []uint64
	}{{"right", 0, false, []uint64{1}}, {"wrong", 1, false, []uint64{1, 2, 3}}, {"none declared", 0, true, []uint64{1}}} {
		rho := &against{unit: 1, digits: 2}
		for _, seed := range x.seeds {
			s := asReference
			s.lengthError, s.noLengths, s.seed = x.wrong, x.none, seed
			rows := FlagshipPart{}
			ours, theirs, names, err := f.both(&rows, tuned, polluxPolicy, s)
			if err != nil {
				return err
			}
			for i := range ours {
				rho.add(topRho(ours[i]), topRho(theirs[i]))
				p.row(names[i], x.name, seed, fmt.Sprintf("%.2f", ours[i].MaxRho), fmt.Sprintf("%.2f", theirs[i].MaxRho), hours(ours[i].AvgJCT), hours(theirs[i].AvgJCT))
			}
		}
		c := rho.atMost(fmt.Sprintf("largest rho over that of `pollux`, each; lengths %s", x.name), rho.worst(), 1)
		c.Want, c.Holds = "below 1", rho.worst() < 1
		p.claim(c)
	}
	p.Head = []string{"workload", "lengths", "seed", "largest rho, `" + f.Policy + "`", "`pollux`", "avg JCT, `" + f.Policy + "`", "`pollux`"}
	return nil
}
