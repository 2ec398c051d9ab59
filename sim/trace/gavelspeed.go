// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

// gavelSpeed is the speed of a model on V100s, in steps per second.
type gavelSpeed struct {
	// reduced is the speed behind the 7-column traces. They come from Philly jobs,
	// and their steps are the job's duration times this one figure for the model,
	// whatever the number of GPUs. We found it by comparing the traces with the
	// durations of the same jobs.
	reduced float64
	// scaled is the speed on 1, 2, 4 and 8 V100s of one machine, as measured by
	// Gavel (Narayanan et al., OSDI 2020; simulation_throughputs.json, MIT
	// licence), rounded. 0: not measured.
	scaled [4]float64
}

// on returns the speed on any number of GPUs: if it was not measured, that of the
// next smaller measured number, in proportion.
func (s gavelSpeed) on(gpus int) float64 {
	best, measured := s.scaled[0], 1
	for i, speed := range s.scaled {
		if n := 1 << i; speed > 0 && n <= gpus {
			best, measured = speed, n
		}
	}
	return best * float64(max(1, gpus)) / float64(measured)
}

var gavelSpeeds = map[string]gavelSpeed{
	"A3C":                              {8.233, [...]float64{7.176, 0, 0, 0}},
	"CycleGAN":                         {4.9185, [...]float64{4.426, 0, 0, 0}},
	"LM (batch size 5)":                {167.123, [...]float64{109.2, 185.7, 126.7, 698.8}},
	"LM (batch size 10)":               {143.361, [...]float64{81.65, 163.1, 121.5, 615.1}},
	"LM (batch size 20)":               {107.951, [...]float64{64.74, 132.2, 111, 497.3}},
	"LM (batch size 40)":               {71.723, [...]float64{45.24, 91.59, 96.03, 359.3}},
	"LM (batch size 80)":               {43.9036, [...]float64{28.24, 58.09, 74.81, 231.2}},
	"Recommendation (batch size 512)":  {0.3315, [...]float64{23.32, 0, 0, 0}},
	"Recommendation (batch size 1024)": {0.48, [...]float64{13.28, 0, 0, 0}},
	"Recommendation (batch size 2048)": {0.5675, [...]float64{7.47, 0, 0, 0}},
	"Recommendation (batch size 4096)": {0.6244, [...]float64{3.906, 0, 0, 0}},
	"Recommendation (batch size 8192)": {0.6023, [...]float64{2.842, 0, 0, 0}},
	"ResNet-18 (batch size 16)":        {77.3174, [...]float64{32.35, 100.1, 123.9, 382.6}},
	"ResNet-18 (batch size 32)":        {65.8054, [...]float64{29.95, 94.25, 114.7, 340}},
	"ResNet-18 (batch size 64)":        {48.8842, [...]float64{24.09, 74.14, 95.59, 255.8}},
	"ResNet-18 (batch size 128)":       {30.2875, [...]float64{17.99, 23.99, 69.95, 162.1}},
	"ResNet-18 (batch size 256)":       {16.9874, [...]float64{10.3, 15.88, 27.78, 81.51}},
	"ResNet-50 (batch size 16)":        {17.3744, [...]float64{11.4, 13.86, 23.2, 27.8}},
	"ResNet-50 (batch size 32)":        {9.9206, [...]float64{7.787, 10.83, 13.76, 24.07}},
	"ResNet-50 (batch size 64)":        {5.4576, [...]float64{4.395, 7.922, 9.452, 17.3}},
	"ResNet-50 (batch size 128)":       {2.846, [...]float64{2.497, 4.223, 7.029, 10.29}},
	"Transformer (batch size 16)":      {12.8456, [...]float64{11.06, 14.15, 20.08, 71.65}},
	"Transformer (batch size 32)":      {12.4753, [...]float64{10.62, 13.33, 22.82, 63.98}},
	"Transformer (batch size 64)":      {9.568, [...]float64{8.618, 15.88, 19.66, 49.65}},
	"Transformer (batch size 128)":     {5.7712, [...]float64{5.446, 10.07, 14.17, 30.88}},
	"Transformer (batch size 256)":     {1.707, [...]float64{1.595, 2.885, 4.763, 9.717}},
}
