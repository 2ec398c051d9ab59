// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// benchRows makes a file of n jobs in a format.
func benchRows(tb testing.TB, format Format, n int) []byte {
	var out bytes.Buffer
	line := func(form string) {
		for i := range n {
			fmt.Fprintf(&out, form+"\n", i, i%60)
		}
	}
	switch format {
	case Native:
		return native(tb, generate(tb, Gen{Kind: KindPhilly, Jobs: n, GPUs: 2490, Seed: 1}))
	case Pollux:
		out.WriteString(polluxHead)
		line("job-%d,%d,cifar10,8,2048")
	case Rubick:
		out.WriteString(rubickHead)
		line("job-%d,%d,600,bert,8,64,0,zero-dp,4000,0")
	case Philly:
		out.WriteByte('[')
		for i := range n {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, `{"status":"Pass","vc":"vc","jobid":"job-%d","user":"u","submitted_time":"2017-10-09 07:01:%02d",`+
				`"attempts":[{"start_time":"2017-10-09 07:02:00","end_time":"2017-10-09 08:02:00","detail":[{"ip":"m1","gpus":["gpu0","gpu1"]}]}]}`, i, i%60)
		}
		out.WriteByte(']')
	case Helios:
		out.WriteString(heliosHead)
		line("job-%d,u,vc,n,8,32,1,COMPLETED,2020-04-01 10:00:%02d,2020-04-01 10:01:00,2020-04-01 11:01:00,3600,60")
	case Acme:
		out.WriteString("job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n")
		line("job-%d,u,1,8.0,64,Eval,COMPLETED,2023-05-01 08:00:%02d+08:00,2023-05-01 08:01:00+08:00,2023-05-01 08:02:00+08:00,60.0,30.0,480.0")
	case Alibaba:
		line("job-%d,worker,4,Terminated,%d.0,400.0,600.0,29.0,50.0,T4")
	case Openb:
		out.WriteString(openbHead)
		line("pod-%d,1,500,Succeeded,%d,4000,100")
	case Tiresias:
		out.WriteString(tiresiasHead)
		line("%d,8,%d,100,resnet50,200,20")
	case Gavel:
		for i := range n {
			fmt.Fprintf(&out, "Transformer (batch size 128)\ttrain\t-step\t1\t5771\t%d.0\t8\n", i)
		}
	}
	return out.Bytes()
}

func BenchmarkRead(b *testing.B) {
	const jobs = 100_000
	for _, format := range Formats() {
		b.Run(string(format), func(b *testing.B) {
			text := benchRows(b, format, jobs)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				wl, _, err := Read(bytes.NewReader(text), Options{Name: "f"})
				if err != nil || len(wl.Work) != jobs {
					b.Fatalf("%d jobs, error %v", len(wl.Work), err)
				}
			}
		})
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, kind := range Kinds() {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				generate(b, Gen{Kind: kind, Jobs: 100_000, GPUs: 2490, Seed: 1})
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	wl := generate(b, Gen{Kind: KindPhilly, Jobs: 100_000, GPUs: 2490, Seed: 1})
	b.ReportAllocs()
	for b.Loop() {
		native(b, wl)
	}
}

func BenchmarkStats(b *testing.B) {
	wl := generate(b, Gen{Kind: KindPhilly, Jobs: 100_000, GPUs: 2490, Seed: 1})
	b.ReportAllocs()
	for b.Loop() {
		Stats(wl)
	}
}

// The files that benchmarks read are well formed.
func TestBenchRows(t *testing.T) {
	for _, format := range Formats() {
		text := string(benchRows(t, format, 3))
		wl, report, err := Read(strings.NewReader(text), Options{})
		if err != nil || len(wl.Work) != 3 || report.Format != format {
			t.Errorf("%s: report %+v, error %v; want 3 jobs", format, report, err)
		}
	}
}
