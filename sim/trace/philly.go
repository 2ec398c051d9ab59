// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Format philly: the job log of the Philly cluster (cluster_job_log), a JSON
// array of jobs, and two reduced tables of it (phillytable.go).
//
//	status          Pass, Killed or Failed: the job's outcome
//	vc              the virtual cluster: the tenant
//	jobid           the job's id
//	user            the user
//	submitted_time  the time of submission
//	attempts        a list, in order:
//	  start_time, end_time  of the attempt; either may be null
//	  detail                a list of {ip, gpus: ["gpu0", ...]}, one for each machine
//
// Times are Pacific local time without a zone. They are read as if the clock never
// changed, so a difference across the end of summer time is an hour off.
//
// The GPUs of the job are those of its last attempt that lists any, summed over its
// machines. Attempts before the last one are failures. The last one is the run time
// of a job that passed or was killed. If the status is Failed, it is the last
// failure, and the run time is that of the longest attempt, because the real one is
// unknown. The log gives no reasons for failures. A job without attempts, without
// GPUs or without the times of its last attempt is dropped; an earlier attempt
// without times is left out and noted.

// maxPhillyJob bounds the bytes of one job of the log.
const maxPhillyJob = 16 << 20

type phillyJob struct {
	Status    string          `json:"status"`
	VC        string          `json:"vc"`
	ID        string          `json:"jobid"`
	User      string          `json:"user"`
	Submitted *string         `json:"submitted_time"`
	Attempts  []phillyAttempt `json:"attempts"`
}

type phillyAttempt struct {
	Start  *string `json:"start_time"`
	End    *string `json:"end_time"`
	Detail []struct {
		GPUs []string `json:"gpus"`
	} `json:"detail"`
}

func (a *phillyAttempt) gpus() int {
	var n int
	for _, machine := range a.Detail {
		n += len(machine.GPUs)
	}
	return n
}

func readPhilly(br *bufio.Reader, b *builder) error {
	first, err := firstByte(br)
	if err != nil {
		return err
	}
	if first != '[' {
		return readPhillyTable(br, b)
	}
	b.wl.Source = "Philly job log (ATC'19)"
	in := &rationed{r: br, left: maxPhillyJob}
	dec := json.NewDecoder(in)
	if _, err := dec.Token(); err != nil {
		return jsonPosition(in, dec, err)
	}
	for dec.More() {
		in.left = maxPhillyJob
		line, col := in.position(dec.InputOffset())
		b.report.Rows++
		var job phillyJob
		if err := dec.Decode(&job); err != nil {
			var kind *json.UnmarshalTypeError
			if !errors.As(err, &kind) {
				return jsonPosition(in, dec, err)
			}
			row := BadRow{Line: line, Column: col, Field: kind.Field, Value: kind.Value, Text: "want " + kind.Type.String()}
			if err := b.bad(row); err != nil {
				return err
			}
			continue
		}
		if err := b.addPhilly(&job, line, col); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonPosition(in, dec, err)
	}
	return nil
}

// jsonPosition says where the log stops being valid JSON; reading cannot continue
// from there.
func jsonPosition(in *rationed, dec *json.Decoder, err error) error {
	at := dec.InputOffset()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = max(at, syntax.Offset)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	line, col := in.position(at)
	return fmt.Errorf("line %d, column %d: want a JSON array of jobs: %w", line, col, err)
}

// phillyFault is an invalid field of a job.
type phillyFault struct{ field, value, want string }

func (b *builder) addPhilly(job *phillyJob, line, col int) error {
	w, dropped, fault := job.work(b)
	switch {
	case fault != nil:
		return b.bad(BadRow{Line: line, Column: col, Field: fault.field, Value: fault.value, Text: fault.want})
	case dropped != "":
		b.drop(dropped)
		return nil
	}
	return b.add(w, line)
}

// work converts a job of the log, or says why it cannot be replayed.
func (job *phillyJob) work(b *builder) (w sim.Work, dropped string, fault *phillyFault) {
	var outcome sched.Phase
	switch job.Status {
	case "Pass":
	case "Killed":
		outcome = sched.Cancelled
	case "Failed":
		outcome = sched.Failed
	default:
		return w, "", &phillyFault{"status", job.Status, "want Pass, Killed or Failed"}
	}
	if job.ID == "" {
		return w, "", &phillyFault{"jobid", "", "want the job's id"}
	}
	submitted, known, fault := phillyTime("submitted_time", job.Submitted)
	if fault != nil {
		return w, "", fault
	}
	if !known {
		return w, "has no time of submission", nil
	}
	if len(job.Attempts) == 0 {
		return w, neverStarted, nil
	}
	w = sim.Work{Outcome: outcome}
	w.ID, w.Tenant, w.User = sched.JobID(job.ID), sched.TenantID(job.VC), job.User
	w.Submitted = submitted
	for i := range job.Attempts {
		attempt := &job.Attempts[i]
		last := i == len(job.Attempts)-1
		if n := attempt.gpus(); n > 0 {
			w.GPUs = n
		}
		ran, known, fault := attempt.ran()
		switch {
		case fault != nil:
			return w, "", fault
		case !known && last:
			return w, "has no start or end of its last attempt", nil
		case !known:
			b.note("has an earlier attempt without times, left out")
		case last && outcome != sched.Failed:
			w.RunTime = ran
		default:
			w.Failures = append(w.Failures, sim.Failure{Reason: unknownReason, After: ran})
			if outcome == sched.Failed {
				w.RunTime = max(w.RunTime, ran)
			}
		}
	}
	if w.GPUs == 0 {
		return w, noGPUs, nil
	}
	return w, "", nil
}

// neverStarted is the reason to drop jobs that only waited.
const neverStarted = "never started"

func (a *phillyAttempt) ran() (d sched.Duration, known bool, fault *phillyFault) {
	start, hasStart, fault := phillyTime("start_time", a.Start)
	if fault != nil {
		return 0, false, fault
	}
	end, hasEnd, fault := phillyTime("end_time", a.End)
	if fault != nil || !hasStart || !hasEnd {
		return 0, false, fault
	}
	if end.Before(start) {
		return 0, false, &phillyFault{"end_time", *a.End, "want a time not before start_time, " + *a.Start}
	}
	return runTime(sched.Duration(end.Sub(start))), true, nil
}

func phillyTime(field string, text *string) (t time.Time, known bool, fault *phillyFault) {
	if text == nil || isMissing(*text) {
		return t, false, nil
	}
	t, ok := parseTime(*text)
	if !ok {
		return t, false, &phillyFault{field, *text, "want a time such as 2017-10-09 07:01:55, or null"}
	}
	return t, true, nil
}

// firstByte returns the first byte that is not white space, and consumes the white
// space before it.
func firstByte(br *bufio.Reader) (byte, error) {
	for {
		c, err := br.ReadByte()
		if err == io.EOF {
			return 0, errors.New("the file is empty")
		}
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		}
		if c == 0xEF { // a byte order mark
			if mark, err := br.Peek(2); err == nil && mark[0] == 0xBB && mark[1] == 0xBF {
				if _, err := br.Discard(2); err != nil {
					return 0, err
				}
				continue
			}
		}
		return c, br.UnreadByte()
	}
}

// rationed limits the bytes of each job and knows the line of an offset.
type rationed struct {
	r     io.Reader
	left  int
	read  int64
	line  int     // lines before mark
	mark  int64   // offset of the start of the line after those
	ahead []int64 // starts of lines behind mark
}

func (r *rationed) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("a job takes more than %d bytes", maxPhillyJob)
	}
	n, err := r.r.Read(p[:min(len(p), r.left)])
	for i, c := range p[:n] {
		if c == '\n' {
			r.ahead = append(r.ahead, r.read+int64(i)+1)
		}
	}
	r.read += int64(n)
	r.left -= n
	return n, err
}

// position returns line and column, both from 1, of an offset. Offsets must not
// decrease from call to call.
func (r *rationed) position(offset int64) (line, col int) {
	for len(r.ahead) > 0 && r.ahead[0] <= offset {
		r.mark, r.ahead = r.ahead[0], r.ahead[1:]
		r.line++
	}
	return r.line + 1, int(offset-r.mark) + 1
}
