// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/sched"
)

func TestNew(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"las", "las"},
		{"las:lease=20m", "las:lease=20m"},
		{"las:lease=10m", "las"},
		{"las:lease=1h:lease=2h", "las:lease=2h"},
		{"fifo:backfill", "fifo:backfill=easy"},
		{"fifo:backfill:backfill=greedy", "fifo:backfill=greedy"},
		{"tiresias:gittins", "tiresias:order=gittins"},
		{"tiresias:thresholds=1h/16h", "tiresias:thresholds=1h/16h"},
		{"tiresias:gittins:services=1/2.5/1e+06:promote=0.5", "tiresias:order=gittins:services=1/2.5/1e+06:promote=0.5"},
		{"tiresias:thresholds=", "tiresias:thresholds="},
		{"srtf:preempt=false", "srtf:preempt=false"},
		{"drf:by=user", "drf:by=user"},
		{"las:placement=skew", "las:placement=skew"},
	} {
		p, err := policy.Builtin().New(c.spec)
		if err != nil {
			t.Errorf("New(%q): %v", c.spec, err)
			continue
		}
		got := fmt.Sprint(p)
		if got != c.want {
			t.Errorf("New(%q) is named %q; want %q", c.spec, got, c.want)
		}
		again, err := policy.Builtin().New(got)
		if err != nil || fmt.Sprint(again) != got {
			t.Errorf("the name %q gives %v, %v; want itself", got, again, err)
		}
	}
}

func TestNewErrors(t *testing.T) {
	all := "there are: " + strings.Join(policy.Builtin().Names(), ", ")
	for _, c := range []struct{ spec, want string }{
		{"", `unknown policy ""; ` + all},
		{"tiresia", `unknown policy "tiresia"; did you mean "tiresias"? ` + all},
		{"LAS", `unknown policy "LAS"; did you mean "las"? ` + all},
		{"quantum-annealing", `unknown policy "quantum-annealing"; ` + all},
		{"las:leas=1m", `policy las: unknown knob "leas"; did you mean "lease"? there are: lease, placement`},
		{"las:fast", `policy las: unknown variant "fast"; there are none`},
		{"las:", `policy las: unknown variant ""; there are none`},
		{"tiresias:gitins", `policy tiresias: unknown variant "gitins"; did you mean "gittins"? there are: gittins`},
		{"las:lease=20", `policy las: knob lease = "20"; want a duration with a unit, such as 90s, 10m, 16h or 7d`},
		{"las:lease=0s", `policy las: lease = 0s; want 1s or more`},
		{"srtf:preempt=yes", `policy srtf: knob preempt = "yes"; want true or false`},
		{"srtf:preempt=null", `policy srtf: knob preempt = "null"; want true or false`},
		{"srtf:preempt=", `policy srtf: knob preempt = ""; want true or false`},
		{"fifo:backfill=lots", `policy fifo: backfill = "lots"; want off, easy or greedy`},
		{"drf:by=colour", `policy drf: by = "colour"; want tenant, user or app`},
		{"drf:lease=-1m", `policy drf: lease = -1m; want 1s or more`},
		{"tiresias:order=sjf", `policy tiresias: order = "sjf"; want las or gittins`},
		{"srtf:placement=nice", `policy srtf: placement = "nice"; want consolidated, skew, fewest-nodes, rack-local, most-free, fragments or ladder`},
		{"tiresias:placement=nice", `policy tiresias: placement = "nice"; want consolidated, skew, fewest-nodes, rack-local, most-free, fragments or ladder`},
		{"tiresias:thresholds=16h/1h", `policy tiresias: thresholds = [16h 1h]; want positive GPU times in ascending order`},
		{"tiresias:thresholds=1h/x", `policy tiresias: knob thresholds = "1h/x"; want a list, separated by "/", of which each element is a duration with a unit, such as 90s, 10m, 16h or 7d`},
		{"tiresias:promote=-1", `policy tiresias: promote = -1; want 0 (never) or a positive number`},
		{"tiresias:promote=NaN", `policy tiresias: knob promote = "NaN"; want a number`},
		{"tiresias:gittins:services=", `policy tiresias: services has 0 values; want 1 to 1000`},
		{"tiresias:services=1/0", `policy tiresias: services has the value 0; want positive GPU-seconds`},
		{"las:" + strings.Repeat("x", 5000), `policy: the spec has 5004 bytes; want at most 4096`},
	} {
		_, err := policy.Builtin().New(c.spec)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("New(%.40q):\n got %s\nwant %s", c.spec, got, c.want)
		}
	}
}

// TestTable holds every line of the table to the same form.
func TestTable(t *testing.T) {
	r := policy.Builtin()
	for _, name := range r.Names() {
		e := r[name]
		if e.Name != name || e.Summary == "" || e.Paper == "" {
			t.Errorf("%s: entry is %+v; want its name, a summary and a paper", name, e.About)
		}
		if s, ok := build(t, name).(fmt.Stringer); !ok || s.String() != name {
			t.Errorf("%s: the policy is named %v; want the name it has in the table", name, s)
		}
		for _, k := range e.Knobs {
			if k.Name == "" || k.Help == "" {
				t.Errorf("%s: knob %+v; want a JSON name and help", name, k)
			}
			if !strings.Contains(k.Default, "...") {
				build(t, name+":"+k.Name+"="+k.Default)
			}
		}
		for _, v := range e.Variants {
			if v.Summary == "" {
				t.Errorf("%s: variant %s has no summary", name, v.Name)
			}
			if got := fmt.Sprint(build(t, name+":"+v.Name)); got == name {
				t.Errorf("%s: variant %s changes nothing", name, v.Name)
			}
		}
	}
}

// TestNeeds: what a policy needs may depend on its form, however that is set.
func TestNeeds(t *testing.T) {
	r := policy.Builtin()
	oracle, losses := policy.Needs{Oracle: true}, policy.Needs{Agents: true, Losses: true}
	for spec, want := range map[string]policy.Needs{
		"las":                                 {},
		"pollux":                              {Agents: true},
		"pollux:genetic":                      {Agents: true},
		"optimus":                             oracle,
		"optimus:every=2m":                    oracle,
		"optimus:original":                    losses,
		"optimus:form=original":               losses,
		"optimus:original:form=oracle":        oracle,
		"optimus:form=original:damp=0.5":      losses,
		"optimus:form=original:no-such=thing": oracle, // cannot be built
		"srtf":                                {Estimates: true},
		"fifo":                                {},
		"fifo:backfill":                       {Estimates: true},
		"fifo@screen@reserve:after=1h":        {Estimates: true},
		"las:placement=ladder":                {Estimates: true},
		"no-such-policy":                      {},
		"":                                    {},
	} {
		if got := r.About(spec).Needs; got != want {
			t.Errorf("%q needs %+v; want %+v", spec, got, want)
		}
	}
	for _, v := range r["optimus"].Variants {
		if v.Name == "original" && v.Needs != losses {
			t.Errorf("the table says that optimus:original needs %+v; want %+v", v.Needs, losses)
		}
	}
	for needs, want := range map[policy.Needs]string{{}: "", oracle: "true step times and lengths, which only a simulator has",
		losses: "agents that report losses and step times", {Agents: true}: "agents that report models of speed and tune batch sizes",
		{Agents: true, Estimates: true}: "agents that report models of speed and tune batch sizes; estimates of run times; exact ones make it an oracle"} {
		if got := needs.String(); got != want {
			t.Errorf("%+v is called %q; want %q", needs, got, want)
		}
	}
}

// still is a policy that runs nothing.
type still struct{}

func (still) Schedule(s *sched.Snapshot) sched.Plan { return sched.NewPlan(s) }

func TestAdd(t *testing.T) {
	type config struct {
		Level int `json:"level" help:"how much"`
	}
	entry := func(name string) policy.Entry {
		return policy.Of(policy.About{Name: name}, config{Level: 3}, func(c config) (sched.Policy, error) {
			if c.Level > 9 {
				return nil, errors.New("level is too high")
			}
			return still{}, nil
		}, policy.Preset[config]{Variant: policy.Variant{Name: "low"}, Set: func(c *config) { c.Level = 1 }})
	}
	r := policy.Builtin()
	if err := r.Add(entry("still")); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{"still": "still", "still:low": "still:level=1", "still:level=5": "still:level=5"} {
		if p, err := r.New(spec); err != nil || fmt.Sprint(p) != want {
			t.Errorf("New(%q) = %v, %v; want %s", spec, p, err, want)
		}
	}
	if _, err := r.New("still:level=10"); err == nil || err.Error() != "policy still: level is too high" {
		t.Errorf("New(still:level=10): %v; want the constructor's error", err)
	}
	if err := r.Add(entry("las")); err == nil {
		t.Error("Add took a second policy named las")
	}
	for _, name := range []string{"", "a:b", "a b", "a,b"} {
		if err := r.Add(entry(name)); err == nil {
			t.Errorf("Add took the name %q", name)
		}
	}
	if slices.Contains(policy.Builtin().Names(), "still") {
		t.Error("adding to one table changed another")
	}
	want := []knob.Knob{{Name: "level", Default: "3", Help: "how much"}}
	if diff := cmp.Diff(want, entry("still").Knobs); diff != "" {
		t.Errorf("knobs (-want +got):\n%s", diff)
	}
}

func FuzzNew(f *testing.F) {
	for _, spec := range []string{
		"las", "las:lease=20m", "tiresias:gittins:thresholds=1h/16h", "tiresias:services=1/2/3", "fifo:backfill",
		"drf:by=user:preempt=false", ":::", "las:lease", "las:=", "tiresias:promote=1e400", "tiresias:services=[1]", "srtf:preempt=true,",
		"tiresias:thresholds=1h,2h", `fifo:backfill="easy"`, "las:lease=99999999999999h",
	} {
		f.Add(spec)
	}
	r := policy.Builtin()
	f.Fuzz(func(t *testing.T, spec string) {
		p, err := r.New(spec)
		if err != nil {
			if p != nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("New(%q) = %v, %q; want no policy and one line", spec, p, err)
			}
			return
		}
		again, err := r.New(fmt.Sprint(p))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(p) {
			t.Errorf("New(%q) is named %q, which gives %v, %v", spec, p, again, err)
		}
	})
}

// A layer is named after its policy, with words of its own.
func TestLayers(t *testing.T) {
	type config struct {
		Moves int `json:"moves" help:"a number"`
	}
	var built []string
	table := policy.Builtin()
	err := table.Add(policy.Layered(policy.About{Name: "probe"}, config{Moves: 1}, func(c config) (policy.Layer, error) {
		return func(inner sched.Policy) sched.Policy {
			built = append(built, fmt.Sprintf("%d over %s", c.Moves, inner))
			return inner
		}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.New("las:lease=20m@probe:moves=3@probe"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"3 over las:lease=20m", "1 over las:lease=20m@probe:moves=3"}; !slices.Equal(built, want) {
		t.Errorf("built %q; want %q", built, want)
	}
	for spec, want := range map[string]string{
		"las@prob":          `unknown layer "prob"; did you mean "probe"?`,
		"las@probe:x=1":     `layer probe: unknown knob "x"`,
		"las@":              `unknown layer ""`,
		"@probe":            `unknown policy ""`,
		"las@probe:moves=x": `layer probe: knob moves = "x"; want a whole number`,
	} {
		if _, err := table.New(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%s): got %v; want %s", spec, err, want)
		}
	}
	if slices.Contains(table.Names(), "@probe") || table.About("las@probe").Name != "las" {
		t.Error("a layer is listed among the policies, or hides the policy under it")
	}
}
