// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func newMetrics() *cobra.Command {
	var r remote
	var names []string
	var by, mlflow, wandb string
	var asCSV bool
	c := &cobra.Command{
		Use:   "metrics JOB",
		Short: "Plot what a job reports: its loss and other metrics",
		Long: `Plot what a job's script has told fairway.report(), over its steps or over time.

Every value is kept while they are few. Of a longer training about 500 points of each
metric are kept: means of values in a row, with the least and the largest of them.

--mlflow writes the job as a run into a folder of files that MLflow reads without a server
("mlflow ui --backend-store-uri FOLDER"), with the parameters of a trial; its app is the
experiment. Written again, the run is replaced. Newer versions of MLflow want
MLFLOW_ALLOW_FILE_STORE=true, or the folder moved to a database by "mlflow migrate-filestore".

--wandb logs the job as a run of a project of W&B, by the wandb package of the Python that
is active in this shell, with its login and its settings: with WANDB_MODE=offline it writes
files for a later "wandb sync". Logged again, the run is replaced.` + exitHelp,
		Example: `  fairway metrics resnet-7
  fairway metrics resnet-7 --name loss --by time
  fairway metrics resnet-7 --csv > resnet-7.csv
  fairway metrics resnet-7 --mlflow mlruns
  fairway metrics resnet-7 --wandb vision`,
		Args: exactly(1, "fairway metrics resnet-7"),
		RunE: func(c *cobra.Command, args []string) error {
			if by != "step" && by != "time" {
				return usagef("--by is %.40q; want step or time", by)
			}
			if asCSV && r.asJSON {
				return usagef("--csv and --json are both set; want one of them")
			}
			if to := cmp.Or(mlflow, wandb); to != "" && (asCSV || r.asJSON || len(names) > 0 || mlflow != "" && wandb != "") {
				return usagef("metrics to %.40q: --mlflow and --wandb export all of them; want one of the two, without --csv, --json and --name", to)
			}
			daemon, err := r.dial()
			if err != nil {
				return err
			}
			defer daemon.Close()
			list, err := daemon.JobMetrics(c.Context(), sched.JobID(args[0]), names...)
			switch w := c.OutOrStdout(); {
			case err != nil:
				return err
			case r.asJSON:
				return printAnswer(w, list)
			case asCSV:
				return writeMetrics(w, list)
			case mlflow != "" || wandb != "":
				j, err := daemon.Job(c.Context(), sched.JobID(args[0]))
				if err != nil {
					return err
				}
				params, err := runParams(c.Context(), daemon, j)
				if err != nil {
					return err
				}
				if wandb != "" {
					return logWandb(c.Context(), j, params, list, wandb, w, c.ErrOrStderr())
				}
				run, err := writeMLflow(j, params, list, mlflow)
				if err == nil {
					fmt.Fprintln(w, clean(run))
				}
				return err
			default:
				plotMetrics(w, list, by == "time", widthOf(w))
				return nil
			}
		},
	}
	fl := c.Flags()
	fl.StringSliceVar(&names, "name", nil, "only the metrics with these names")
	fl.StringVar(&by, "by", "step", "what to plot over: step or time")
	fl.BoolVar(&asCSV, "csv", false, "print one line for each point: metric, step, time, value, min, max, count")
	fl.StringVar(&mlflow, "mlflow", "", "write the job as a run of MLflow into this `folder`")
	fl.StringVar(&wandb, "wandb", "", "log the job as a run of this `project` of W&B")
	r.registerJSON(c)
	c.ValidArgsFunction = r.completeJobs()
	return c
}

func writeMetrics(w io.Writer, list api.MetricList) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"metric", "step", "time", "value", "min", "max", "count"}) // Error has it
	text := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	for i := range list.Metrics {
		s := &list.Metrics[i]
		for k := range s.Len() {
			p := s.Point(k)
			_ = out.Write([]string{s.Name, text(p.Step), fromUnix(p.At).UTC().Format("2006-01-02T15:04:05.000Z"), text(p.Value), text(p.Min), text(p.Max), strconv.Itoa(p.Count)})
		}
	}
	out.Flush()
	return out.Error()
}

func fromUnix(s float64) time.Time { return time.UnixMilli(int64(s * 1000)) }

func plotMetrics(w io.Writer, list api.MetricList, overTime bool, width int) {
	if len(list.Metrics) == 0 {
		fmt.Fprintln(w, "no metrics yet: its script reports them with fairway.report(loss=..., accuracy=...)")
		return
	}
	for i := range list.Metrics {
		if i > 0 {
			fmt.Fprintln(w)
		}
		plotSeries(w, &list.Metrics[i], overTime, cmp.Or(width, 80))
	}
	if list.Full {
		fmt.Fprintf(w, "\nThe job reports more than %d metrics: the first %d are kept.\n", api.MaxSeries, api.MaxSeries)
	}
}

// plotSeries draws a series: the mean in each column.
func plotSeries(w io.Writer, s *api.Series, overTime bool, width int) {
	const rows = 8
	if s.Len() == 0 {
		fmt.Fprintf(w, "%s: no values\n", clean(s.Name))
		return
	}
	x := func(p api.SeriesPoint) float64 {
		if overTime {
			return p.At
		}
		return p.Step
	}
	least, most, from, to, values := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1), 0
	for k := range s.Len() {
		p := s.Point(k)
		least, most, from, to = min(least, p.Min), max(most, p.Max), min(from, x(p)), max(to, x(p))
		values += p.Count
	}
	last := s.Values[s.Len()-1]
	if s.Last != nil {
		last = *s.Last
	}
	fmt.Fprintf(w, "%s: last %s, least %s, most %s, %s\n", clean(s.Name), number(last), number(least), number(most), several(values, "value"))
	if s.Len() == 1 || from == to {
		return
	}
	const room = 12 // for the longest number beside the plot
	wide := max(20, min(100, width-room))
	sums, counts := make([]float64, wide), make([]float64, wide)
	low, high := math.Inf(1), math.Inf(-1)
	for k := range s.Len() {
		p := s.Point(k)
		i := min(wide-1, int((x(p)-from)/(to-from)*float64(wide)))
		sums[i] += p.Value * float64(p.Count)
		counts[i] += float64(p.Count)
	}
	for i := range sums {
		if counts[i] > 0 {
			sums[i] /= counts[i]
			low, high = min(low, sums[i]), max(high, sums[i])
		}
	}
	label := max(textWidth(number(low)), textWidth(number(high)))
	grid := make([][]rune, rows)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", wide))
	}
	for i := range sums {
		if counts[i] == 0 {
			continue
		}
		row := rows - 1
		if high > low {
			row = rows - 1 - int((sums[i]-low)/(high-low)*(rows-1)+0.5)
		}
		grid[row][i] = '•'
	}
	for i, line := range grid {
		name := ""
		switch i {
		case 0:
			name = number(high)
		case rows - 1:
			name = number(low)
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%*s │%s", label, name, string(line)), " "))
	}
	first, end := "step "+number(from), number(to)
	if overTime {
		now := fromUnix(to)
		first, end = clock(now, fromUnix(from)), clock(now, now)
	}
	fmt.Fprintf(w, "%*s └%s\n%*s  %s%*s\n", label, "", strings.Repeat("─", wide), label, "", first, max(1, wide-len(first)), end)
}
