// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// hostile is a job name that does something if it is ever taken for markup.
const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>"'&amp;`

// node makes a machine with idle GPUs.
func node(name string, gpus int, kind sched.GPUType) api.Node {
	n := api.Node{Node: sched.Node{Name: name, GPUs: gpus, Type: kind, GPUMemory: 141 << 30, CPUs: 192, Memory: 2 << 40, Rack: "r1"}, Up: true}
	for i := range gpus {
		n.Slots = append(n.Slots, api.GPUSlot{Index: i, UUID: fmt.Sprintf("GPU-%s-%d", name, i)})
	}
	return n
}

// waiting makes a job that nobody has decided about.
func waiting(id, name string, gpus int) api.Job {
	now := time.Now()
	return api.Job{
		Spec:   sched.Spec{ID: sched.JobID(id), App: sched.AppID(id), Tenant: "vision", User: "ada", Submitted: now.Add(-10 * time.Minute), GPUs: gpus, Work: 1000},
		Task:   api.Task{Name: name, Command: []string{"python", "train.py", "--epochs", "90"}},
		Status: sched.Status{Since: now.Add(-10 * time.Minute)},
		State:  api.Waiting,
		Reason: &api.Reason{Code: "no-room", Text: fmt.Sprintf("needs %d GPUs on one node; the best has 1 free", gpus), Until: now.Add(7 * time.Minute)},
	}
}

// running makes a job that trains.
func running(id, name string, gpus int) api.Job {
	j := waiting(id, name, gpus)
	now := time.Now()
	j.State, j.Reason, j.Agent, j.Left = api.Running, nil, true, 1800
	j.Status = sched.Status{Phase: sched.Running, Since: now.Add(-25 * time.Minute), Starts: 3, Preemptions: 1, Moves: 1, MostGPUs: 4, Done: 420, Rate: 0.3,
		ReportedAt: now.Add(-10 * time.Second), Checkpoint: now.Add(-3 * time.Minute), Ran: sched.Duration(40 * time.Minute), Waited: sched.Duration(9 * time.Minute)}
	loss := 1.83
	j.Last = &api.Point{At: now, Batch: 512, Efficiency: 0.71, Throughput: 3100, Goodput: 2201, Loss: &loss}
	j.Rho, j.FairShare = 1.12, 3.2
	return j
}

// richWorld fills the fake with a busy cluster: every state, shared GPUs, a
// node that is cordoned and one that is down, long and hostile names.
func richWorld(f *fake) {
	f.nodes = []api.Node{node("dgx-1", 8, "h200"), node("dgx-2", 8, "h200"), node("workstation", 2, "rtx4090"), node("old-box", 4, "t4")}
	f.nodes[2].State = sched.Cordoned
	f.nodes[2].Quarantine = &diagnose.NodeChange{Node: "workstation", State: diagnose.Quarantined, Until: time.Now().Add(time.Hour), Why: "3 jobs of 2 users failed on it within 6h"}
	f.nodes[3].State, f.nodes[3].Up = sched.Down, false
	add := func(j api.Job) *api.Job {
		j.Status.Seq = int64(len(f.jobs) + 1)
		f.jobs = append([]api.Job{j}, f.jobs...)
		return &f.jobs[0]
	}
	old := waiting("j-0001", "mnist", 1)
	old.State, old.Status.Phase, old.Reason, old.Ended = api.Finished, sched.Finished, nil, time.Now().Add(-time.Hour)
	old.Exit = &api.Exit{}
	add(old)
	bad := waiting("j-0002", "with-a-bug", 1)
	bad.State, bad.Status.Phase, bad.Reason, bad.Ended = api.Failed, sched.Failed, nil, time.Now().Add(-50*time.Minute)
	bad.Exit = &api.Exit{Code: 1, Why: "KeyError: 'learning_rate' in train.py line 12", Next: "not retried: the program has a bug: correct it",
		Finding: &diagnose.Finding{Reason: "program-bug", Text: "the program has a bug", Category: diagnose.User, Confidence: 0.95,
			Evidence: &diagnose.Evidence{Source: diagnose.FromLog, Log: "rank-0.log", Line: 7, Text: "KeyError: 'learning_rate'"}}}
	add(bad)
	resnet := running("j-0003", "resnet-50", 4)
	resnet.Submitted = time.Now().Add(-125 * time.Minute)
	resnet.MinGPUs, resnet.MaxGPUs, resnet.Batch.Adapt = 1, 8, true
	resnet.Links = []api.Link{{Name: "W&B", URL: "https://wandb.example/lab/vision/runs/a1"}, {Name: "MLflow", URL: "http://mlflow.example/#/experiments/1/runs/b2"}}
	f.hold(add(resnet), 0, 0, 4, 1000)
	for i := range 3 {
		trial := running(fmt.Sprintf("j-000%d", 4+i), fmt.Sprintf("sweep lr=%g", math.Pow(10, float64(-2-i))), 1)
		trial.App, trial.Status.Done, trial.User, trial.Tenant = "lr-sweep", 120*float64(i+1), "grace", "language"
		f.hold(add(trial), 0, 4+i, 1, 1000)
	}
	bert := running("j-0007", "bert-finetune", 8)
	bert.User, bert.Tenant, bert.Status.Done = "alan", "language", 810
	f.hold(add(bert), 1, 0, 6, 1000)
	half := running("j-0008", "notebook", 1)
	half.MilliGPU, half.Work, half.Left = 400, 0, 0
	f.hold(add(half), 1, 6, 1, 400)
	other := running("j-0009", "eval "+hostile, 1)
	other.MilliGPU, other.State = 600, api.Starting
	f.hold(add(other), 1, 6, 1, 600)
	add(waiting("j-0010", "gpt-nano", 16))
	long := waiting("j-0011", "a-very-long-name-that-somebody-gave-to-a-job-to-remember-all-of-its-hyperparameters-lr0.001-bs512-wd0.05", 8)
	long.Reason = &api.Reason{Code: "order", Text: "2 jobs are ahead of it; it needs 8 GPUs and 1 is free, the next 6 come back in about 30 min when bert-finetune ends"}
	add(long)
	rest := waiting("j-0012", hostile, 2)
	rest.State, rest.PausedBy, rest.Reason = api.Paused, "ada", &api.Reason{Code: "paused", Text: "paused by ada; resume it to let it go on"}
	add(rest)
	f.use()
	f.train("j-0003")
	f.search()
	f.tell()
	f.history()
	f.tenants = []api.TenantView{
		{Tenant: sched.Tenant{ID: "language", Parent: "research"}, Path: "research/language", Standing: "research/language shares what is left of research's 14", GPUs: 9, Running: 4, Waiting: 0, Share: 6, Rho: 1.71, GPUTime: 120000},
		{Tenant: sched.Tenant{ID: "research", Quota: 14, Borrow: true}, Below: 16},
		{Tenant: sched.Tenant{ID: "vision", Parent: "research", Weight: 2, Quota: 8, Borrow: true}, Path: "research/vision", Standing: "research/vision may have 8 of research's 14", GPUs: 7, Running: 3, Waiting: 3, Share: 10, Rho: 1.12, GPUTime: 81000},
	}
	f.apps = []api.AppView{
		{ID: "lr-sweep", Tenant: "language", Submitted: time.Now().Add(-time.Hour), Jobs: 3, Running: 3, GPUs: 3, Rho: 1.71},
		{ID: "j-0003", Tenant: "vision", Submitted: time.Now().Add(-2 * time.Hour), Jobs: 1, Running: 1, GPUs: 4, Rho: 1.12},
		{ID: "j-0002", Tenant: "vision", Submitted: time.Now().Add(-3 * time.Hour), Jobs: 1, Failed: 1},
	}
}

// largeWorld fills the fake with many nodes and jobs, of which so many run as there is
// room for.
func largeWorld(f *fake, nodes, jobs int) {
	for i := range nodes {
		f.nodes = append(f.nodes, node(fmt.Sprintf("node-%04d", i), 8, "h200"))
		f.nodes[i].Rack = fmt.Sprintf("r%02d", i/32)
		switch i % 97 {
		case 11:
			f.nodes[i].State = sched.Cordoned
		case 53:
			f.nodes[i].State, f.nodes[i].Up = sched.Down, false
		}
	}
	users := []string{"ada", "grace", "alan", "barbara"}
	room := 0
	for i := range jobs {
		n, id := 1<<(i%4), fmt.Sprintf("j-%05d", i+1)
		j := waiting(id, fmt.Sprintf("train %d", i+1), n)
		for room < 8*nodes && (f.nodes[room/8].State != sched.Ready || room%8+n > 8) {
			room += 8 - room%8
		}
		if room+n <= 8*nodes {
			j = running(id, j.Name, n)
			j.Left = float64(600 + 300*(i%40))
		}
		j.User, j.Tenant, j.Status.Seq = users[i%4], sched.TenantID([]string{"vision", "language", "robotics"}[i%3]), int64(i+1)
		j.App = sched.AppID(fmt.Sprintf("study-%d", i/7))
		j.Rho = 0.8 + float64(i%11)/6
		if j.State == api.Running {
			f.hold(&j, room/8, room%8, n, 1000)
			room += n
		}
		f.jobs = append([]api.Job{j}, f.jobs...)
		if i%7 == 0 {
			f.apps = append(f.apps, api.AppView{ID: j.App, Tenant: j.Tenant, Submitted: j.Submitted, Jobs: 7, Running: 4, Waiting: 3, GPUs: 12, Rho: 0.6 * math.Pow(1.09, float64(i/7%40))})
		}
	}
	for n := range f.nodes {
		for i := range f.nodes[n].Slots {
			slot := &f.nodes[n].Slots[i]
			slot.Use = &api.GPUUse{At: time.Now(), Util: float64(len(slot.Jobs)) * (0.5 + float64((n+i)%10)/20), MemoryTotal: 141 << 30, MemoryUsed: 60 << 30}
		}
	}
	f.history()
	for i := range f.samples {
		f.samples[i].GPUs, f.samples[i].Held = 8*nodes, room-i%9
	}
	f.tenants = []api.TenantView{
		{Tenant: sched.Tenant{ID: "vision", Weight: 2}, GPUs: room / 3, Running: 90, Waiting: 12, Share: float64(4 * nodes), Rho: 1.4, GPUTime: 8e6},
		{Tenant: sched.Tenant{ID: "language", Weight: 1, Quota: nodes}, GPUs: room / 3, Running: 90, Waiting: 300, Share: float64(2 * nodes), Rho: 3.1, GPUTime: 3e6},
		{Tenant: sched.Tenant{ID: "robotics", Weight: 1}, GPUs: room / 3, Running: 80, Share: float64(2 * nodes), Rho: 0.9, GPUTime: 2e6},
	}
}

// use invents what the GPUs measure.
func (f *fake) use() {
	for n := range f.nodes {
		for i := range f.nodes[n].Slots {
			slot := &f.nodes[n].Slots[i]
			busy := float64(len(slot.Jobs)) * (0.55 + 0.05*float64(i%8))
			slot.Use = &api.GPUUse{At: time.Now(), Util: min(1, busy), MemoryTotal: 141 << 30, MemoryUsed: int64(min(1, busy) * 100 * (1 << 30)), PowerW: 90 + 500*min(1, busy), TempC: 38 + 30*min(1, busy)}
			if n == 1 && i == 7 {
				slot.Use.Processes = []api.GPUProcess{{PID: 4711, Memory: 3 << 30}}
			}
		}
	}
	f.nodes[3].Slots[0].Use, f.nodes[3].Slots[1].Use, f.nodes[3].Slots[2].Use, f.nodes[3].Slots[3].Use = nil, nil, nil, nil
}

// train invents two hours of training with a preemption in between.
func (f *fake) train(id sched.JobID) {
	start := time.Now().Add(-2 * time.Hour)
	at := func(minutes float64) time.Time { return start.Add(time.Duration(minutes * float64(time.Minute))) }
	for m := 8.0; m < 120; m += 0.5 {
		gpus := 1
		switch {
		case m > 55 && m < 70:
			continue
		case m >= 95:
			gpus = 4
		case m >= 30:
			gpus = 2
		}
		loss := 0.4 + 3*math.Exp(-m/45) + 0.05*math.Sin(m*3)
		eff := 0.95 - 0.09*float64(gpus-1) + 0.02*math.Sin(m)
		rate := 900*float64(gpus) - 60*float64(gpus*gpus) + 30*math.Sin(m*5)
		f.points[id] = append(f.points[id], api.Point{At: at(m), Done: m * 4, GPUs: gpus, Batch: 128 * gpus, Efficiency: eff, Throughput: rate, Goodput: rate * eff, Loss: &loss,
			Util: 0.6 + 0.1*eff, Memory: int64(30+10*gpus) << 30, Metrics: map[string]float64{"accuracy": 1 - loss/4}})
	}
	var loss, accuracy api.Series
	loss.Name, accuracy.Name = "loss", "accuracy"
	for i, p := range f.points[id] {
		for k := range 3 {
			at := api.SeriesPoint{Step: float64(10*i + 3*k), At: float64(p.At.Unix()) + 9*float64(k), Value: *p.Loss + 0.03*float64(k), Count: 1}
			loss.Add(at)
			at.Value = 1 - at.Value/4
			accuracy.Add(at)
		}
	}
	f.metrics[id] = api.MetricList{Metrics: []api.Series{accuracy, loss}}
	f.explains[id] = api.Explanation{
		Summary: "It runs on 4 of the 1 to 8 GPUs it can use: a fifth would add 6 % goodput here and cost bert-finetune 14 %.",
		AllGPUs: 22, FreeGPUs: 1,
		Holders: []api.Share{{Job: "j-0007", Tenant: "language", GPUs: 6, Left: 1800}, {Job: "j-0003", Tenant: "vision", GPUs: 4, Left: 1800}, {Job: "j-0004", Tenant: "language", GPUs: 1}},
		Ledger: []api.Entry{
			{At: at(8), Verb: "start", To: 1, Why: "first in the queue"},
			{At: at(30), Verb: "move", From: 1, To: 2, Why: "2 GPUs became free", LostS: 4, Away: 11},
			{At: at(55), Verb: "preempt", From: 2, Why: "made room for bert-finetune, which was far behind its fair share", Lost: 12, LostS: 96, Away: 900},
			{At: at(70), Verb: "start", To: 2, Why: "mnist ended"},
			{At: at(95), Verb: "move", From: 2, To: 4, Why: "its goodput grows most with 2 more", LostS: 3, Away: 9},
		},
		Price: api.LedgerTotal{Preemptions: 1, Moves: 2, LostS: 103, AwayS: 920},
	}
	for i := range 60 {
		f.log += fmt.Sprintf("\x1b[32mstep %4d\x1b[0m  loss %.4f  batch 512  lr 0.012 <b>%s</b>\n", i*10, 2.5*math.Exp(-float64(i)/30), "bold?")
	}
}

// search invents a search, some of whose trials were stopped early.
func (f *fake) search() {
	least, most, best := 1e-5, 1e-1, 1
	s := api.Search{ID: "lr-sweep", Tenant: "language", User: "grace", State: api.SearchRunning, Submitted: time.Now().Add(-time.Hour), Best: &best,
		Spec: api.SearchSpec{ID: "lr-sweep", Parameters: map[string]api.Parameter{"lr": {Min: &least, Max: &most, Log: true}, "width": {Values: []string{"64", "128"}}},
			Stopping: api.StopRule{Rule: "asha"}, Trials: 12}}
	for i := range 9 {
		value := 0.4 + 0.11*math.Abs(float64(i-best))
		t := api.Trial{Number: i, Params: map[string]string{"lr": fmt.Sprintf("%.0e", math.Pow(10, float64(-1-i%5))), "width": []string{"64", "128"}[i%2]},
			State: api.Running, Rung: i % 3, Value: &value, Done: float64(40 * (i%3 + 1))}
		if i < 3 {
			t.Job = sched.JobID(fmt.Sprintf("j-000%d", 4+i))
		} else {
			t.State, t.Early, t.Why = api.Cancelled, true, "its loss is not among the best third"
		}
		for k := range 20 {
			t.Curve = append(t.Curve, api.CurvePoint{Done: t.Done * float64(k+1) / 20, Value: value + 2*math.Exp(-float64(k)/4)})
		}
		s.Trials = append(s.Trials, t)
	}
	f.searches = append(f.searches, s)
}

// tell writes a journal of what happened.
func (f *fake) tell() {
	for _, j := range []sched.JobID{"j-0001", "j-0002", "j-0003", "j-0007"} {
		f.say(api.Record{Actor: "ada", Event: &sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: j, GPUs: 2}}, Task: &api.Task{Name: "job " + string(j)}})
		f.say(api.Record{Actor: "scheduler", Event: &sched.Event{Kind: sched.JobStarted, Job: j, Placement: sched.Placement{{Node: 0, Milli: 1000, GPUs: 0b11}}}})
		f.say(api.Record{Actor: "agent", Event: &sched.Event{Kind: sched.JobReported, Job: j}})
	}
	f.say(api.Record{Actor: "machine", Exit: &api.Exit{AttemptID: api.AttemptID{Job: "j-0002", Number: 1}, Code: 1, Why: "KeyError: 'learning_rate'"}})
	f.say(api.Record{Actor: "scheduler", Event: &sched.Event{Kind: sched.JobStopped, Job: "j-0003", Text: "preempted: made room for bert-finetune"}})
	f.say(api.Record{Actor: "scheduler", Event: &sched.Event{Kind: sched.JobFailed, Job: "j-0002", Text: "rank 0 exited with code 1: " + hostile}})
	f.say(api.Record{Actor: "ada", Policy: "pollux"})
}

// history invents three hours of samples.
func (f *fake) history() {
	start := time.Now().Add(-3 * time.Hour)
	for i := range 180 {
		a, b := 4+i/30, 10-i/30
		wave := math.Sin(float64(i) / 14)
		s := api.Sample{At: start.Add(time.Duration(i) * time.Minute), GPUs: 22, Held: a + b, Running: 5 + i%4, Waiting: 3 + i/40, Util: 0.7 + 0.1*wave,
			Tenants: []api.TenantSample{{ID: "vision", GPUs: a, Rho: 1.1 + 0.1*wave}, {ID: "language", GPUs: b, Rho: 1.6 - 0.2*wave}}}
		for k := range 4 {
			if i > 30*k {
				s.Apps = append(s.Apps, api.AppSample{ID: sched.AppID(fmt.Sprintf("app-%d", k)), GPUs: k, Rho: 0.9 + 0.2*float64(k) + 0.1*math.Sin(float64(i)/9+float64(k))})
			}
		}
		if i > 100 && i < 140 {
			s.Tenants = append(s.Tenants, api.TenantSample{ID: "robotics", GPUs: 3, Rho: 0.9})
		}
		f.samples = append(f.samples, s)
	}
}
