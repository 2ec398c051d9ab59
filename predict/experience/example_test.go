// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience_test

import (
	"bytes"
	"fmt"

	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// A job ends and leaves its experience behind; a second one of the same model
// begins with it, and a third, which only claims to be of that model, gets rid
// of it.
func Example() {
	if err := run(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// records in the file: 1
	// similarity 0.87, up to 8 GPUs, restart 45 s
	// samples before the job runs: 3
	// noise scale half way: 400 before it is measured, 477 after it was 600 once
	// measured 0.21 s, dropped: false
	// samples after: 3 of which its own: 1
	// measured 1.1 s, dropped: true
	// samples after: 1
}

func run() error {
	// The first job has run on one, four and eight GPUs.
	var profile goodput.Profile
	for _, s := range []goodput.Sample{
		{Nodes: 1, GPUs: 1, Local: 32, Step: 0.20},
		{Nodes: 1, GPUs: 4, Local: 32, Step: 0.24, Sync: 0.04},
		{Nodes: 2, GPUs: 8, Local: 32, Step: 0.30, Sync: 0.10},
	} {
		if err := profile.Add(s); err != nil {
			return err
		}
	}
	done := experience.Outcome{Profiles: map[string]*goodput.Profile{"t4": &profile}, Restart: 45, Work: 90_000}
	for _, frac := range []float64{0.1, 0.5, 0.9} {
		if err := done.Noise.Add(frac, 800*frac); err != nil {
			return err
		}
	}
	pool := experience.New()
	if err := pool.Learn(experience.Key{Model: "resnet50", Dataset: "imagenet", User: "ann", Script: "train.py"}, done); err != nil {
		return err
	}

	// The pool goes to a file and comes back.
	var file bytes.Buffer
	if err := pool.Write(&file); err != nil {
		return err
	}
	pool, err := experience.Read(&file)
	if err != nil {
		return err
	}
	fmt.Println("records in the file:", pool.Len())
	return secondAndThird(pool)
}

func secondAndThird(pool *experience.Pool) error {
	key := experience.Key{Model: "resnet50", Dataset: "imagenet", User: "ann", Script: "train2.py"}
	_, similarity, _ := pool.Nearest(key)
	prior := pool.Prior(key, experience.Default())
	restart, _ := prior.Restart()
	fmt.Printf("similarity %.2f, up to %d GPUs, restart %v s\n", similarity, prior.MostGPUs(), restart)

	own := &goodput.Profile{}
	fmt.Println("samples before the job runs:", prior.Profile("t4", own).Len())
	fmt.Printf("noise scale half way: %.0f before it is measured, %.0f after it was 600 once\n",
		prior.Noise(0.525, 0, 0), prior.Noise(0.525, 600, 1))
	s := goodput.Sample{Nodes: 1, GPUs: 1, Local: 32, Step: 0.21}
	if err := own.Add(s); err != nil {
		return err
	}
	fmt.Println("measured 0.21 s, dropped:", prior.Check("t4", s, nil))
	fmt.Println("samples after:", prior.Profile("t4", own).Len(), "of which its own:", own.Len())

	prior, own = pool.Prior(key, experience.Default()), &goodput.Profile{}
	s.Step = 1.1
	if err := own.Add(s); err != nil {
		return err
	}
	fmt.Println("measured 1.1 s, dropped:", prior.Check("t4", s, nil))
	fmt.Println("samples after:", prior.Profile("t4", own).Len())
	return nil
}
