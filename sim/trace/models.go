// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import "strings"

// zooNames maps the names of models in traces to those of the zoo. Only names of the
// same network are mapped; every other one stays as it is, in lower case, and is an
// unknown model to the simulator.
//
//	trace                        zoo
//	ResNet-50                    resnet50
//	ResNet-18 (Gavel: CIFAR-10)  cifar10
//	LM                           lm
//	Transformer                  transformer
//	Inception-v3, inceptionv3    inception3
//	Inception-v4, inceptionv4    inception4
//	DeepSpeech                   deepspeech
//	GNMT, WaveNet, BERT, ...     the same in lower case
var zooNames = map[string]string{
	"resnet-18":     "cifar10",
	"resnet-50":     "resnet50",
	"resnet-101":    "resnet101",
	"resnet-152":    "resnet152",
	"inception-v3":  "inception3",
	"inceptionv3":   "inception3",
	"inception-v4":  "inception4",
	"inceptionv4":   "inception4",
	"vgg-11":        "vgg11",
	"vgg-16":        "vgg16",
	"vgg-19":        "vgg19",
	"bidaf":         "bi-att-flow",
	"deep-speech":   "deepspeech",
	"deep-speech-2": "deepspeech2",
	"deepspeech-2":  "deepspeech2",
}

// zooName returns the zoo's name of a model.
func zooName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if isMissing(name) {
		return ""
	}
	if zoo, ok := zooNames[name]; ok {
		return zoo
	}
	return name
}

// drawnModel is a model that generated jobs train.
type drawnModel struct {
	name  string
	share float64
	// consolidate: the model loses speed when its GPUs are spread.
	consolidate bool
}

// phillyModels is our choice: the Philly authors publish no models, only that the
// cluster trained image, speech and language models with several frameworks, and that
// some jobs lose much speed when they are spread. The two groups have 62 and 38 %.
var phillyModels = [...]drawnModel{
	{"resnet50", 0.20, false},
	{"resnet152", 0.08, false},
	{"inception3", 0.10, false},
	{"googlenet", 0.05, false},
	{"deepspeech", 0.12, false},
	{"wavenet", 0.07, false},
	{"vgg16", 0.10, true},
	{"vgg19", 0.05, true},
	{"alexnet", 0.05, true},
	{"lm", 0.12, true},
	{"transformer", 0.06, true},
}

// themisModels has the paper's shares: vision 10 %, language 60 %, speech
// 30 %, and 40 % of the apps with a network-intensive model. How the shares
// divide within a group is our choice.
var themisModels = [...]drawnModel{
	{"vgg16", 0.05, true},
	{"resnet50", 0.025, false},
	{"inception3", 0.025, false},
	{"transformer", 0.20, true},
	{"lm", 0.15, true},
	{"bi-att-flow", 0.125, false},
	{"gnmt", 0.125, false},
	{"wavenet", 0.15, false},
	{"deepspeech", 0.15, false},
}

// drawModel picks a model by a number from 0 to 1.
func drawModel(models []drawnModel, u float64) drawnModel {
	for _, m := range models {
		if u -= m.share; u < 0 {
			return m
		}
	}
	return models[len(models)-1]
}
