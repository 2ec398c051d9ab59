// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/fairway-gpu/fairway/policy/antman"
	"github.com/fairway-gpu/fairway/policy/carbyne"
	"github.com/fairway-gpu/fairway/policy/drf"
	"github.com/fairway-gpu/fairway/policy/fairway"
	"github.com/fairway-gpu/fairway/policy/fifo"
	"github.com/fairway-gpu/fairway/policy/gandiva"
	"github.com/fairway-gpu/fairway/policy/gavel"
	"github.com/fairway-gpu/fairway/policy/horus"
	"github.com/fairway-gpu/fairway/policy/las"
	"github.com/fairway-gpu/fairway/policy/layer/defrag"
	"github.com/fairway-gpu/fairway/policy/layer/reserve"
	"github.com/fairway-gpu/fairway/policy/layer/screen"
	"github.com/fairway-gpu/fairway/policy/layer/share"
	"github.com/fairway-gpu/fairway/policy/layer/spare"
	"github.com/fairway-gpu/fairway/policy/optimus"
	"github.com/fairway-gpu/fairway/policy/packing"
	"github.com/fairway-gpu/fairway/policy/philly"
	"github.com/fairway-gpu/fairway/policy/pollux"
	"github.com/fairway-gpu/fairway/policy/quincy"
	"github.com/fairway-gpu/fairway/policy/shockwave"
	"github.com/fairway-gpu/fairway/policy/sia"
	"github.com/fairway-gpu/fairway/policy/slaq"
	"github.com/fairway-gpu/fairway/policy/srtf"
	"github.com/fairway-gpu/fairway/policy/themis"
	"github.com/fairway-gpu/fairway/policy/tiresias"
)

// Builtin returns a new table of the policies of this module.
func Builtin() Registry {
	r := Registry{}
	for _, e := range []Entry{
		Varying(About{
			Name:     "antman",
			Summary:  "jobs within quotas run as if alone; other jobs use the rest of their GPUs",
			Paper:    "AntMan, OSDI'20",
			Promises: Drains | NoStarvation,
		}, antman.Default(), antman.New, func(c antman.Config, a *About) { a.Coordinator = c.Coordinator }),
		Of(About{
			Name:     "carbyne",
			Summary:  "fair shares as drf; GPUs that a job does not need until later go to the shortest jobs",
			Paper:    "Carbyne, OSDI'16",
			Needs:    Needs{Estimates: true},
			Resizes:  true,
			Promises: WorkConserving | Drains | NoStarvation,
		}, carbyne.Default(), carbyne.New),
		Varying(About{
			Name:     "drf",
			Summary:  "equal dominant shares of GPUs, CPUs and memory for every tenant",
			Paper:    "DRF, NSDI'11",
			Promises: WorkConserving | Drains | NoStarvation,
		}, drf.Default(), drf.New, func(c drf.Config, a *About) {
			if !c.Preempt {
				a.Promises = a.Promises&^NoStarvation | NeverPreempts
			}
		}),
		Of(About{
			Name:     "fairway",
			Summary:  "the default: goodput by rank of work left, with a bound on waiting and on unfairness",
			Paper:    "Fairway; after heSRPT (Berg et al., 2020) and Pollux",
			Needs:    Needs{Agents: true, Estimates: true},
			Resizes:  true,
			Events:   true,
			Learns:   true,
			Promises: Drains | NoStarvation,
		}, fairway.Default(), fairway.New),
		Varying(About{
			Name:     "fifo",
			Summary:  "first come, first served; never preempts",
			Paper:    "EASY backfilling: Lifka, JSSPP'95",
			Order:    Order{ByPriority, BySubmission},
			Promises: Drains | NeverPreempts,
		}, fifo.Default(), fifo.New, func(c fifo.Config, a *About) {
			switch c.Backfill {
			case fifo.Off:
				a.Promises |= InOrder | NoStarvation
			case fifo.Easy:
				a.Promises |= NoDelay | NoStarvation
				a.Estimates = true
			case fifo.Greedy:
				a.Promises |= WorkConserving
			}
		},
			Preset[fifo.Config]{Variant{Name: "backfill", Summary: "a job may overtake if it does not delay the first waiting job"},
				func(c *fifo.Config) { c.Backfill = fifo.Easy }},
			Preset[fifo.Config]{Variant{Name: "greedy", Summary: "any job that fits may overtake"},
				func(c *fifo.Config) { c.Backfill = fifo.Greedy }}),
		Of(About{
			Name:     "gandiva",
			Summary:  "starts jobs at once by time slicing; improves with packing, migration, resizing",
			Paper:    "Gandiva, OSDI'18",
			Resizes:  true,
			Promises: Drains,
		}, gandiva.Default(), gandiva.New),
		Varying(About{
			Name:     "gavel",
			Summary:  "shares of time on each GPU type by a linear program, in rounds",
			Paper:    "Gavel, OSDI'20",
			Needs:    Needs{Agents: true, Losses: true},
			Promises: WorkConserving | Drains,
		}, gavel.Default(), gavel.New, func(c gavel.Config, a *About) {
			switch c.Goal {
			case gavel.FinishTime, gavel.Makespan, gavel.Shortest, gavel.AlloX:
				a.Estimates = true
			case gavel.Cost:
				a.Estimates = c.SLO > 0
			}
		},
			Preset[gavel.Config]{Variant{Name: "ftf", Summary: "the smallest maximum of finish-time fairness"},
				func(c *gavel.Config) { c.Goal = gavel.FinishTime }},
			Preset[gavel.Config]{Variant{Name: "makespan", Summary: "the shortest makespan"},
				func(c *gavel.Config) { c.Goal, c.Turns = gavel.Makespan, 1 }},
			Preset[gavel.Config]{Variant{Name: "cost", Summary: "the most work per cost"},
				func(c *gavel.Config) { c.Goal = gavel.Cost }},
			Preset[gavel.Config]{Variant{Name: "sjf", Summary: "the most finished jobs, the shortest first"},
				func(c *gavel.Config) { c.Goal = gavel.Shortest }},
			Preset[gavel.Config]{Variant{Name: "throughput", Summary: "the most steps a second of all jobs together"},
				func(c *gavel.Config) { c.Goal = gavel.Throughput }},
			Preset[gavel.Config]{Variant{Name: "fifo", Summary: "the jobs submitted first go first, each on the types where it is fast"},
				func(c *gavel.Config) { c.Goal = gavel.FIFO }},
			Preset[gavel.Config]{Variant{Name: "hierarchical", Summary: "max-min between tenants by weight, and between the jobs of each"},
				func(c *gavel.Config) { c.Goal = gavel.Hierarchical }},
			Preset[gavel.Config]{Variant{Name: "allox", Summary: "the least sum of completion times, by matching jobs and places (AlloX, EuroSys'20)"},
				func(c *gavel.Config) { c.Goal = gavel.AlloX }},
			Preset[gavel.Config]{Variant{Name: "packing", Summary: "pairs of jobs share GPUs where this is expected to raise throughput; with any goal"},
				func(c *gavel.Config) { c.Sharing = gavel.Packing }}),
		Varying(About{
			Name:     "horus",
			Summary:  "lets jobs share GPUs by predicted utilisation, the lowest first",
			Paper:    "Horus, TPDS'22",
			Needs:    Needs{Estimates: true},
			Promises: Drains | NoStarvation | NeverPreempts,
		}, horus.Default(), horus.New, func(c horus.Config, a *About) {
			if c.Migrate {
				a.Promises &^= NeverPreempts
			}
		}),
		Varying(About{
			Name:     "horus+",
			Summary:  "as horus, with job classes served in proportion to their waits",
			Paper:    "Horus, TPDS'22",
			Needs:    Needs{Estimates: true},
			Promises: Drains | NoStarvation | NeverPreempts,
		}, horus.Default(), horus.NewPlus, func(c horus.Config, a *About) {
			if c.Migrate {
				a.Promises &^= NeverPreempts
			}
		}),
		Of(About{
			Name:     "las",
			Summary:  "the least GPU time so far goes first, in leases",
			Paper:    "baseline of Themis, NSDI'20",
			Order:    Order{ByAttained, BySubmission},
			Promises: WorkConserving | Drains | NoStarvation,
		}, las.Default(), las.New),
		Varying(About{
			Name:     "optimus",
			Summary:  "gives each further GPU to the job whose remaining time it shortens most",
			Paper:    "Optimus, EuroSys'18; oracle form of Pollux, OSDI'21",
			Resizes:  true,
			Promises: WorkConserving | Drains,
		}, optimus.Default(), optimus.New, func(c optimus.Config, a *About) {
			a.Needs = Needs{Oracle: true}
			if c.Form == optimus.Original {
				a.Needs = Needs{Agents: true, Losses: true}
			}
		},
			Preset[optimus.Config]{Variant{Name: "original", Summary: "fits losses and speeds and decides every 10 minutes, as in the paper; no oracle"},
				(*optimus.Config).UseOriginal}),
		Of(About{
			Name:     "packing",
			Summary:  "first come, first served; several jobs on a GPU wherever their memory fits",
			Paper:    "baselines of Horus, TPDS'22",
			Order:    Order{ByPriority, BySubmission},
			Promises: Drains | NoStarvation | NeverPreempts | InOrder,
		}, packing.Default(), packing.New,
			Preset[packing.Config]{Variant{Name: "gandiva", Summary: "by memory and current utilisation of GPUs"},
				func(c *packing.Config) { c.By = packing.Gandiva }}),
		Varying(About{
			Name:     "philly",
			Summary:  "virtual clusters with quotas, gangs that back off, locality relaxed step by step",
			Paper:    "Philly, ATC'19",
			Promises: Drains,
		}, philly.Default(), philly.New, func(c philly.Config, a *About) {
			a.Estimates = c.Relax == philly.Proportional
			if c.Relax == philly.Off {
				a.Promises &^= Drains // a job may wait for the best placement for ever
			}
		}),
		Of(About{
			Name:     "pollux",
			Summary:  "resizes jobs for the largest goodput, while their agents tune batch sizes",
			Paper:    "Pollux, OSDI'21",
			Needs:    Needs{Agents: true},
			Resizes:  true,
			Promises: Drains,
		}, pollux.Default(), pollux.New,
			Preset[pollux.Config]{Variant{Name: "genetic", Summary: "with the paper's genetic search"},
				func(c *pollux.Config) { c.Search = pollux.Genetic }}),
		Of(About{
			Name:     "quincy",
			Summary:  "the cheapest decision by min-cost flow: waiting, stopping and moving have costs",
			Paper:    "Quincy, SOSP'09",
			Promises: WorkConserving | Drains | NoStarvation,
		}, quincy.Default(), quincy.New),
		Of(About{
			Name:     "shockwave",
			Summary:  "plans a window of rounds for the progress of all jobs and a short makespan",
			Paper:    "Shockwave, NSDI'23",
			Needs:    Needs{Estimates: true},
			Promises: WorkConserving | Drains | NoStarvation,
		}, shockwave.Default(), shockwave.New),
		Of(About{
			Name:     "slaq",
			Summary:  "gives each further GPU to the job whose loss it lowers most in the next epoch",
			Paper:    "SLAQ, SoCC'17",
			Needs:    Needs{Agents: true, Losses: true},
			Resizes:  true,
			Promises: WorkConserving | Drains | NoStarvation,
		}, slaq.Default(), slaq.New),
		Of(About{
			Name:     "sia",
			Summary:  "sizes and GPU types of jobs by an integer program over their goodput",
			Paper:    "Sia, SOSP'23",
			Needs:    Needs{Agents: true},
			Resizes:  true,
			Promises: Drains,
		}, sia.Default(), sia.New),
		Varying(About{
			Name:     "srsf",
			Summary:  "the least remaining GPU time goes first",
			Paper:    "baseline of Tiresias, NSDI'19",
			Needs:    Needs{Estimates: true},
			Order:    Order{ByService, BySubmission},
			Promises: WorkConserving | Drains,
		}, srtf.Default(), srtf.NewService, func(c srtf.Config, a *About) {
			if !c.Preempt {
				a.Promises |= NeverPreempts
			}
		}),
		Varying(About{
			Name:     "srtf",
			Summary:  "the least remaining run time goes first",
			Paper:    "baseline of Themis, NSDI'20",
			Needs:    Needs{Estimates: true},
			Order:    Order{ByRemaining, BySubmission},
			Promises: WorkConserving | Drains,
		}, srtf.Default(), srtf.New, func(c srtf.Config, a *About) {
			if !c.Preempt {
				a.Promises |= NeverPreempts
			}
		}),
		Varying(About{
			Name:     "themis",
			Summary:  "leases by auction to the apps with the worst finish-time fairness",
			Paper:    "Themis, NSDI'20",
			Needs:    Needs{Estimates: true},
			Resizes:  true,
			Promises: Drains,
		}, themis.Default(), themis.New, func(c themis.Config, a *About) {
			if c.Slowdown >= themis.SpreadSlowdown {
				a.Promises |= WorkConserving
			}
		},
			Preset[themis.Config]{Variant{Name: "paper", Summary: "the auction as published: its finish times, every expired lease on offer, gangs spread rather than kept waiting, no audit"},
				themis.AsPublished}),
		Varying(About{
			Name:     "tiresias",
			Summary:  "queues by GPU time so far; first come, first served within a queue",
			Paper:    "Tiresias, NSDI'19",
			Order:    Order{ByQueue, ByArrival, BySubmission},
			Promises: WorkConserving | Drains,
		}, tiresias.Default(), tiresias.New, func(c tiresias.Config, a *About) {
			if c.Promote > 0 {
				a.Promises |= NoStarvation
			}
			if c.Order == tiresias.Gittins {
				a.Order = Order{ByQueue}
			}
		},
			Preset[tiresias.Config]{Variant{Name: "gittins", Summary: "by Gittins index within a queue, from a sample of job lengths"},
				func(c *tiresias.Config) { c.Order = tiresias.Gittins }}),
		Layered(About{
			Name:    "defrag",
			Summary: "moves running jobs to make room for a gang or to reunite a spread gang, when the gain exceeds the cost",
			Paper:   "Philly, ATC'19; Gandiva, OSDI'18",
			Needs:   Needs{Estimates: true},
		}, defrag.Default(), defrag.New),
		Layered(About{
			Name:    "reserve",
			Summary: "reserves GPUs for large gangs that have waited long; short jobs backfill",
			Paper:   "EASY backfilling: Lifka, JSSPP'95",
			Needs:   Needs{Estimates: true},
		}, reserve.Default(), reserve.New),
		Layered(About{
			Name:    "screen",
			Summary: "runs new gangs for some minutes on one GPU of a small pool first",
			Paper:   "Philly, ATC'19; Lucid, ASPLOS'23",
		}, screen.Default(), screen.New),
		Layered(About{
			Name:    "spare",
			Summary: "keeps nodes free to replace ones that fail, as many as pay for the gangs that run",
			Paper:   "after ByteRobust, SOSP'25",
		}, spare.Default(), spare.New),
		Layered(About{
			Name:    "share",
			Summary: "waiting jobs share GPUs with running ones where no job is expected to be slowed much",
			Paper:   "Horus, TPDS'22; Lucid, ASPLOS'23",
			Needs:   Needs{Estimates: true},
		}, share.Default(), share.New),
	} {
		r[e.Key()] = e
	}
	return r
}
