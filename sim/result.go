// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import "github.com/fairway-gpu/fairway/sched"

// ResultVersion is the version of the JSON form of results.
const ResultVersion = 1

// Result is what one run measured. It depends only on the inputs, not on the machine,
// so the same inputs give the same bytes; Timing is separate.
type Result struct {
	Summary
	Cluster ClusterShape `json:"cluster"`
	Jobs    []JobResult  `json:"job_results"`
	Series  []Point      `json:"series"` // a point for each change, thinned out on long runs
	// Nodes is the number of nodes of a cloud cluster over time.
	Nodes  []NodePoint   `json:"nodes,omitempty"`
	Trials []TrialResult `json:"trials,omitempty"` // of a search
	// Ledger holds the trades that layers over the policy considered; nil: none.
	Ledger *Ledger `json:"ledger,omitempty"`
}

// Summary is the row of a run in a comparison.
type Summary struct {
	Policy     string `json:"policy"`
	Workload   string `json:"workload"`
	Seed       uint64 `json:"seed"`
	Jobs       int    `json:"jobs"`
	Finished   int    `json:"finished"` // finished, or cancelled by their user
	Failed     int    `json:"failed"`
	Unfinished int    `json:"unfinished"` // still pending or running at the end of the run
	// Averaged is the number of jobs that times are averaged over, if these are not
	// all that ended (started, for waits) but those that did in every run compared.
	Averaged int     `json:"averaged,omitempty"`
	AvgJCT   float64 `json:"avg_jct_s"` // of all jobs that ended
	P50JCT   float64 `json:"p50_jct_s"`
	P90JCT   float64 `json:"p90_jct_s"`
	P99JCT   float64 `json:"p99_jct_s"`
	AvgWait  float64 `json:"avg_wait_s"` // submission to first start
	P50Wait  float64 `json:"p50_wait_s"`
	P90Wait  float64 `json:"p90_wait_s"`
	P99Wait  float64 `json:"p99_wait_s"`
	Makespan float64 `json:"makespan_s"` // first submission to last end
	AvgRho   float64 `json:"avg_rho"`    // finish-time fairness of apps
	P99Rho   float64 `json:"p99_rho"`
	MaxRho   float64 `json:"max_rho"`
	JainRho  float64 `json:"jain_rho"`
	// AvgPaperRho and MaxPaperRho are for the same apps by the formula of the Themis
	// paper; see fairness.App.PaperAlone.
	AvgPaperRho float64 `json:"avg_rho_paper"`
	MaxPaperRho float64 `json:"max_rho_paper"`
	Allocation  float64 `json:"gpu_allocation"`   // GPU time held / GPU time available, until the last end
	GPUUtil     float64 `json:"gpu_util"`         // mean true utilisation of all GPUs while jobs were active
	GPUsHeld    float64 `json:"gpus_held"`        // part of the GPU time in which a job held the GPU
	GPUSeconds  float64 `json:"gpu_seconds"`      // held by jobs
	LostGPUs    float64 `json:"lost_gpu_seconds"` // of these: restarts, and work lost to stops and failures
	Restarts    int     `json:"restarts"`
	Preempted   int     `json:"preemptions"`
	Moved       int     `json:"moves"`
	Failures    int     `json:"failures"` // attempts that ended with an error
	Decisions   int     `json:"decisions"`
	// Estimates says what policies knew, "" in a recording; Oracle says that the
	// policy planned with truths that no live system has.
	Estimates Estimates `json:"estimates,omitempty"`
	// Optimistic says that costs of restarts and agents were simplified; see Config.
	Optimistic bool `json:"optimistic,omitempty"`
	Oracle     bool `json:"oracle,omitempty"`
	// Delays counts the causes of waiting, for jobs that waited.
	Delays    []Delay           `json:"delays"`
	Autoscale *AutoscaleSummary `json:"autoscale,omitempty"` // with Config.Autoscale
	Faults    *FaultSummary     `json:"faults,omitempty"`    // with Config.Faults
	Hardware  *HardwareSummary  `json:"hardware,omitempty"`  // with Config.Hardware
	Sharing   *SharingSummary   `json:"sharing,omitempty"`   // if jobs ever shared a GPU
	Search    *SearchSummary    `json:"search,omitempty"`    // with Config.Search
	Plans     *PlanCount        `json:"plans,omitempty"`     // if jobs have execution plans
}

// Label is the name of the policy in a table, with a mark for oracles.
func (s *Summary) Label() string {
	if s.Oracle {
		return s.Policy + " (oracle)"
	}
	return s.Policy
}

// Timing is the cost of a run on the machine where it ran.
type Timing struct {
	DecideP50 float64 `json:"decide_ms_p50"`
	DecideP99 float64 `json:"decide_ms_p99"`
	Wall      float64 `json:"wall_s"`
}

// Delay is one cause of waiting before the first start, for jobs of one size: the
// Philly paper's table 2.
type Delay struct {
	Size  string  `json:"size"` // "1", "2-4", "5-8", ">8"
	Cause string  `json:"cause"`
	Jobs  int     `json:"jobs"`      // for which this was the largest part of the wait
	Time  float64 `json:"seconds"`   // waited for this cause by all jobs of the size
	Wait  float64 `json:"mean_wait"` // mean wait of the jobs counted
}

// ClusterShape describes the cluster in a report.
type ClusterShape struct {
	Nodes int             `json:"nodes"`
	GPUs  int             `json:"gpus"`
	Racks int             `json:"racks"`
	Types []sched.GPUType `json:"gpu_types"`
}

// JobResult is what happened to one job. Times are seconds since the start of
// the workload.
type JobResult struct {
	ID          sched.JobID    `json:"id"`
	App         sched.AppID    `json:"app"`
	Tenant      sched.TenantID `json:"tenant,omitempty"`
	Model       string         `json:"model,omitempty"`
	GPUs        int            `json:"gpus"` // requested
	Submit      float64        `json:"submit_s"`
	Start       float64        `json:"start_s"` // first; -1: never
	End         float64        `json:"end_s"`   // -1: never
	Outcome     sched.Phase    `json:"outcome"`
	JCT         float64        `json:"jct_s"`    // -1: never ended
	Wait        float64        `json:"wait_s"`   // until the first start
	Queued      float64        `json:"queued_s"` // all waiting, preemptions included
	Ran         float64        `json:"ran_s"`
	GPUSeconds  float64        `json:"gpu_seconds"`
	Restarts    int            `json:"restarts"`
	Preemptions int            `json:"preemptions"`
	Moves       int            `json:"moves"`
	Failures    int            `json:"failures"`
	Rho         float64        `json:"rho"` // of its app; 0: the app did not end
	PaperRho    float64        `json:"rho_paper"`
	WaitFor     sched.Code     `json:"wait_for"`        // cause of most of Wait
	Plain       bool           `json:"plain,omitempty"` // a script without an agent, which cannot save its work
	ETTR        float64        `json:"ettr,omitempty"`  // with Config.Hardware; see HardwareSummary
	Runs        []Segment      `json:"runs"`
}

// Segment is a time during which a job held the same GPUs.
type Segment struct {
	Start float64 `json:"start_s"`
	End   float64 `json:"end_s"`
	GPUs  int     `json:"gpus"`
	Nodes int     `json:"nodes"`
}

// Point is the state of the cluster from T on.
type Point struct {
	T          float64 `json:"t_s"`
	Used       int     `json:"used_gpus"`
	Running    int     `json:"running"`
	Queued     int     `json:"queued"`      // jobs
	QueuedGPUs int     `json:"queued_gpus"` // their demand
}
