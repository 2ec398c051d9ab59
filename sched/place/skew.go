// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// even are the models whose parameters are spread evenly enough over their tensors
// that Tiresias' profiler lets them be scattered. The paper measured that ResNets,
// Inceptions and GoogLeNet lose no speed when scattered, and that VGGs and AlexNet do:
// their largest tensor holds 62 to 77 % of the parameters. For the other models here
// it is at most 21 % (BERT's word embedding; ResNet-18, YOLOv3 and DeepSpeech2 have
// less). NCF is not among them: one embedding holds more than half.
var even = map[string]bool{
	"resnet50": true, "resnet101": true, "resnet152": true,
	"inception3": true, "inception4": true, "googlenet": true,
	"cifar10": true, "imagenet": true, "yolov3": true, "deepspeech2": true, "bert": true,
}

// Skew is Tiresias' rule. A job whose tensors are skewed must be consolidated on the
// fewest nodes and waits for them; one whose tensors are known not to be takes what
// the loose strategy finds. A model that was not profiled is consolidated as far as
// there is room: scattering it could slow it down.
func Skew(loose Strategy) Strategy {
	return func(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
		switch {
		case j.Consolidate:
			return FewestNodes(f, j, n)
		case even[strings.ToLower(j.Model)]:
			return loose(f, j, n)
		}
		return Consolidated(f, j, n)
	}
}

// SkewLevel returns what Skew insists on for a job: for one that must be
// consolidated, a node, as far as it fits on one.
func SkewLevel(j *sched.Job) sched.Level {
	if j.Consolidate {
		return sched.SameMachine
	}
	return sched.CrossRack
}
