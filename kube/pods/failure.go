// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

// The kinds of host events that package diagnose classifies.
const (
	hostLost      = "node-lost"
	hostPreempted = "preempted"
)

// lostReasons maps the reasons of pod failures that are not the job's fault to the kind
// of host event.
var lostReasons = map[string]string{
	"Evicted": hostPreempted, "Preempting": hostPreempted, "Preempted": hostPreempted,
	"NodeLost": hostLost, "Terminated": hostLost, "Shutdown": hostLost, "NodeShutdown": hostLost, "NodeNotReady": hostLost,
	"UnexpectedAdmissionError": "", "NodeAffinity": "", "NodeSelectorMismatching": "", "PodToleration": "", "TaintToleration": "",
}

const (
	deadlineExceeded = "DeadlineExceeded" // the pod ran longer than its activeDeadlineSeconds
	codeTimeout      = 124                // the exit code of the command timeout
)

// failureOf reads how a pod failed, and when.
func failureOf(p *corev1.Pod) (api.Exit, time.Time) {
	if strings.HasPrefix(p.Status.Reason, "OutOf") { // the kubelet refused it: others were faster, and nothing ran
		return *noRoom(p.Spec.NodeName, strings.TrimSuffix(p.Status.Reason+": "+lastLine(p.Status.Message), ": ")), time.Time{}
	}
	if kind, known := lostReasons[p.Status.Reason]; known {
		return lost(p, kind, strings.TrimSpace(p.Status.Reason+": "+lastLine(p.Status.Message))), time.Time{}
	}
	if p.Status.Reason == deadlineExceeded { // its own template sets it, so a retry would not help
		return api.Exit{Code: codeTimeout, Why: strings.TrimSpace(p.Status.Reason + ": " + lastLine(p.Status.Message))}, time.Time{}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			kind := hostPreempted
			if c.Reason == "DeletionByTaintManager" || c.Reason == "DeletionByPodGC" {
				kind = hostLost
			}
			return lost(p, kind, strings.TrimSpace(c.Reason+": "+lastLine(c.Message))), time.Time{}
		}
	}
	s := firstFailed(p)
	if s == nil {
		return lost(p, "", strings.Trim(fmt.Sprintf("pod %s failed: %s %s", p.Name, p.Status.Reason, lastLine(p.Status.Message)), ": ")), time.Time{}
	}
	exit := api.Exit{Code: int(s.ExitCode), Why: lastLine(s.Message)}
	if s.ExitCode == api.YieldCode {
		exit.Yielded = true
		return exit, s.FinishedAt.Time
	}
	number := s.Signal
	if number == 0 && s.ExitCode > 128 {
		number = s.ExitCode - 128
	}
	exit.Signal = signals[number]
	switch {
	case s.Reason == "OOMKilled":
		text := "a container used more memory than its limit"
		exit.Signal = "SIGKILL"
		exit.Why = "out of memory: " + text
		exit.Host = []diagnose.Event{{Kind: api.HostOutOfMemory, Node: p.Spec.NodeName, Text: text}}
	case s.Reason == "ContainerStatusUnknown":
		return lost(p, hostLost, "the kubelet lost the exit status of pod "+p.Name), s.FinishedAt.Time
	case p.DeletionTimestamp != nil && (exit.Signal == "SIGTERM" || exit.Signal == "SIGKILL"):
		return lost(p, "", "pod "+p.Name+" was deleted"+disruption(p)), s.FinishedAt.Time
	case s.Reason == "StartError" || s.Reason == "ContainerCannotRun":
		exit.Signal = ""
	}
	return exit, s.FinishedAt.Time
}

func lost(p *corev1.Pod, kind, why string) api.Exit {
	exit := api.Exit{Lost: true, Why: why}
	if kind != "" {
		exit.Host = []diagnose.Event{{Kind: kind, Node: p.Spec.NodeName, Text: why}}
	}
	return exit
}

// firstFailed returns the state of the container that failed first; nil: none did.
func firstFailed(p *corev1.Pod) *corev1.ContainerStateTerminated {
	var first *corev1.ContainerStateTerminated
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s := c.State.Terminated; s != nil && s.ExitCode != 0 && (first == nil || s.FinishedAt.Before(&first.FinishedAt)) {
			first = s
		}
	}
	return first
}

// signals names the signals that end a process, as Linux numbers them.
var signals = map[int32]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
	10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}

// lastLine returns the last non-blank line of a text, shortened.
func lastLine(text string) string {
	const longest = 400
	text = strings.TrimRight(text, " \t\r\n")
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return strings.TrimSpace(text)
}
