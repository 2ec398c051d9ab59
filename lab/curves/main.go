// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Command curves trains a small network with many hyper-parameters and prints the
// learning curve of each: the table of a real search, for simulated ones. The task is
// to read digits: drawn from a font of 5x7 pixels, moved, and disturbed. The same seed
// gives the same table.
//
//	go run ./lab/curves > sim/trace/digits.csv
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/tune/search"
)

var space = search.Space{
	{Name: "lr", Kind: search.LogFloat, Low: 1e-3, High: 1},
	{Name: "momentum", Kind: search.Float, Low: 0, High: 0.98},
	{Name: "weight_decay", Kind: search.LogFloat, Low: 1e-6, High: 1e-1},
	{Name: "width", Kind: search.Int, Low: 4, High: 48},
	{Name: "batch", Kind: search.LogFloat, Low: 4, High: 256},
	{Name: "annealing", Kind: search.Choice, Choices: []string{"none", "step", "cosine"}},
}

func main() {
	trials := flag.Int("trials", 128, "number of trials, at random points")
	epochs := flag.Int("epochs", 81, "epochs of each")
	seed := flag.Uint64("seed", 1, "seed of the data and the points")
	flag.Parse()
	r := rand.New(rand.NewPCG(*seed, 0))
	train, test := draw(r, 2000), draw(r, 1000)
	w := bufio.NewWriter(os.Stdout)
	names := make([]string, len(space))
	for i, d := range space {
		names[i] = d.Name
	}
	fmt.Fprintf(w, "%s,seconds", strings.Join(names, ","))
	for e := range *epochs {
		fmt.Fprintf(w, ",%d", e+1)
	}
	fmt.Fprintln(w)
	for i := range *trials {
		t := trialOf(space.Random(r), uint64(i))
		for k, d := range space {
			if d.Kind == search.Choice {
				fmt.Fprint(w, d.Choices[int(t.point[k])], ",")
			} else {
				fmt.Fprint(w, strconv.FormatFloat(t.point[k], 'g', 4, 64), ",")
			}
		}
		fmt.Fprintf(w, "%.4f", t.seconds(len(train)))
		for e := range *epochs {
			t.epoch(train, float64(e)/float64(*epochs))
			fmt.Fprintf(w, ",%.1f", 100*t.accuracy(test))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "curves:", err)
		os.Exit(1)
	}
}

// trial is a network with one hidden layer, trained by SGD with momentum.
type trial struct {
	point  search.Params
	rand   *rand.Rand
	width  int
	batch  int
	w1, w2 []float64 // width x pixels, digits x width; the last column of each is the bias
	v1, v2 []float64 // momentum
	g1, g2 []float64 // gradients
	hidden []float64
	out    [digits]float64
}

const in = pixels + 1

func trialOf(p search.Params, number uint64) *trial {
	t := &trial{point: p, rand: rand.New(rand.NewPCG(number, 1)), width: int(p[3])}
	p[4] = math.Round(p[4])
	t.batch = int(p[4])
	hid := t.width + 1
	t.w1, t.v1, t.g1 = make([]float64, t.width*in), make([]float64, t.width*in), make([]float64, t.width*in)
	t.w2, t.v2, t.g2 = make([]float64, digits*hid), make([]float64, digits*hid), make([]float64, digits*hid)
	t.hidden = make([]float64, hid)
	for i := range t.w1 {
		t.w1[i] = t.rand.NormFloat64() * math.Sqrt(2/float64(in))
	}
	for i := range t.w2 {
		t.w2[i] = t.rand.NormFloat64() * math.Sqrt(1/float64(hid))
	}
	return t
}

// seconds is the work of an epoch: an update for each batch and a pass for each
// example, in thousands of millions of multiplications. It stands for the time of an
// epoch, which would differ from run to run.
func (t *trial) seconds(examples int) float64 {
	weights := float64(len(t.w1) + len(t.w2))
	return weights * (6*float64(examples) + 4*float64(examples)/float64(t.batch)) / 1e9
}

// rate returns the learning rate after a part of the training.
func (t *trial) rate(part float64) float64 {
	switch space[5].Choices[int(t.point[5])] {
	case "step":
		return t.point[0] * math.Pow(0.1, math.Floor(part*3))
	case "cosine":
		return t.point[0] * (1 + math.Cos(math.Pi*part)) / 2
	}
	return t.point[0]
}

func (t *trial) epoch(train []example, part float64) {
	order := t.rand.Perm(len(train))
	for from := 0; from < len(order); from += t.batch {
		clear(t.g1)
		clear(t.g2)
		batch := order[from:min(from+t.batch, len(order))]
		for _, i := range batch {
			t.gradient(&train[i])
		}
		scale := 1 / float64(len(batch))
		t.update(t.w1, t.v1, t.g1, scale, t.rate(part))
		t.update(t.w2, t.v2, t.g2, scale, t.rate(part))
	}
}

func (t *trial) update(w, v, g []float64, scale, rate float64) {
	for i := range w {
		v[i] = t.point[1]*v[i] + scale*g[i] + t.point[2]*w[i]
		w[i] -= rate * v[i]
	}
}

// forward computes the probabilities of the digits.
func (t *trial) forward(x *[in]float64) {
	for h := range t.width {
		sum := 0.0
		for i, w := range t.w1[h*in : (h+1)*in] {
			sum += w * x[i]
		}
		t.hidden[h] = max(0, sum)
	}
	hid := t.width + 1
	t.hidden[t.width] = 1
	most := math.Inf(-1)
	for d := range t.out {
		sum := 0.0
		for h, w := range t.w2[d*hid : (d+1)*hid] {
			sum += w * t.hidden[h]
		}
		t.out[d] = sum
		most = max(most, sum)
	}
	all := 0.0
	for d := range t.out {
		t.out[d] = math.Exp(t.out[d] - most)
		all += t.out[d]
	}
	for d := range t.out {
		t.out[d] /= all
	}
}

func (t *trial) gradient(e *example) {
	t.forward(&e.x)
	t.out[e.digit]--
	hid := t.width + 1
	for h := range hid {
		back := 0.0
		for d := range t.out {
			back += t.out[d] * t.w2[d*hid+h]
			t.g2[d*hid+h] += t.out[d] * t.hidden[h]
		}
		if h == t.width || t.hidden[h] == 0 {
			continue
		}
		for i, x := range e.x {
			t.g1[h*in+i] += back * x
		}
	}
}

// accuracy returns the part of the examples that are read right. A network whose
// weights are no longer numbers reads none.
func (t *trial) accuracy(test []example) float64 {
	right := 0
	for i := range test {
		t.forward(&test[i].x)
		best := 0
		for d := range t.out {
			if t.out[d] > t.out[best] {
				best = d
			}
		}
		if best == test[i].digit && !math.IsNaN(t.out[best]) {
			right++
		}
	}
	return float64(right) / float64(len(test))
}
