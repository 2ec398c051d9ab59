// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strconv"

	"github.com/fairway-gpu/fairway/api"
	"github.com/prometheus/client_golang/prometheus"
)

// tenantLabel names the tenant that a series is about.
const tenantLabel = "tenant"

// observer is who asks the services for metrics.
func observer() api.Identity { return api.Identity{User: "metrics", Role: api.Admin} }

// scrape asks the services for their present state, at each scrape.
type scrape struct {
	s *Server

	info, up, paused, jobs, queue, gpus, held, journal, decided *prometheus.Desc
	waitingFor, reporting, useful, quarantined, damages, notify *prometheus.Desc
	tenantGPUs, tenantShare, tenantRho, tenantTime              *prometheus.Desc
	util, memory, memoryTotal, power, temp                      *prometheus.Desc
}

func newScrape(s *Server) *scrape {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairway_"+name, help, labels, nil)
	}
	return &scrape{
		s:           s,
		info:        d("build_info", "The version, as a label.", "version"),
		up:          d("healthy", "1 if the daemon works as it should."),
		paused:      d("starting_paused", "1 while no job is started because the machine lacks something, such as room on its disk."),
		jobs:        d("jobs", "Jobs by state; those that ended since the daemon's first start.", "state"),
		queue:       d("queue_length", "Jobs that wait."),
		gpus:        d("gpus", "GPUs of nodes that are up."),
		held:        d("gpus_held", "GPUs that jobs hold."),
		waitingFor:  d("waiting_jobs", "Jobs that wait, by the code of the reason.", "reason"),
		reporting:   d("gpus_reporting", "GPUs of running jobs whose agents report their statistical efficiency."),
		useful:      d("gpus_useful", "The same, each times that efficiency: the GPUs whose work counts."),
		quarantined: d("nodes_quarantined", "Nodes that are out of use because different jobs failed there."),
		damages:     d("journal_damages", "Losses of records that nobody has acknowledged."),
		notify:      d("notification_failures_total", "Tries to deliver a notification that failed, by the name of the target.", "target"),
		journal:     d("journal_records_total", "Records in the journal so far."),
		decided:     d("decisions_recorded_total", "Decisions that the daemon counted."),
		tenantGPUs:  d("tenant_gpus", "GPUs that a tenant holds.", tenantLabel),
		tenantShare: d("tenant_share_gpus", "GPUs that a tenant would hold by weight.", tenantLabel),
		tenantRho:   d("tenant_rho", "Worst finish-time fairness of a tenant's apps: 1 is fair, more is late.", tenantLabel),
		tenantTime:  d("tenant_gpu_seconds_total", "GPU-seconds that a tenant has used.", tenantLabel),
		util:        d("gpu_utilisation", "Utilisation of a GPU, 0 to 1.", "node", "gpu"),
		memory:      d("gpu_memory_used_bytes", "Memory of a GPU in use.", "node", "gpu"),
		memoryTotal: d("gpu_memory_bytes", "Memory of a GPU.", "node", "gpu"),
		power:       d("gpu_power_watts", "Power of a GPU.", "node", "gpu"),
		temp:        d("gpu_temperature_celsius", "Temperature of a GPU.", "node", "gpu"),
	}
}

// Describe implements prometheus.Collector.
func (c *scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.waitingFor, c.reporting, c.useful, c.quarantined, c.damages, c.notify, c.info, c.up, c.paused, c.jobs, c.queue, c.gpus, c.held, c.journal, c.decided, c.tenantGPUs, c.tenantShare, c.tenantRho, c.tenantTime,
		c.util, c.memory, c.memoryTotal, c.power, c.temp,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *scrape) Collect(ch chan<- prometheus.Metric) {
	// The registry calls this in a goroutine of its own, where a panic of a
	// service would end the daemon.
	defer func() {
		if p := recover(); p != nil {
			c.s.Log.Error("panic while collecting metrics", "err", p)
		}
	}()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.info, 1, c.s.Version)
	c.overview(ch, gauge)
	if c.s.Deliveries != nil {
		for _, d := range c.s.Deliveries() {
			ch <- prometheus.MustNewConstMetric(c.notify, prometheus.CounterValue, float64(d.Failed), d.Target)
		}
	}
	if tenants, err := c.s.Cluster.Tenants(observer()); err == nil {
		for _, t := range tenants {
			id := string(t.ID)
			gauge(c.tenantGPUs, float64(t.GPUs), id)
			gauge(c.tenantShare, t.Share, id)
			gauge(c.tenantRho, t.Rho, id)
			ch <- prometheus.MustNewConstMetric(c.tenantTime, prometheus.CounterValue, t.GPUTime, id)
		}
	}
	if nodes, err := c.s.Cluster.Nodes(observer()); err == nil {
		out := 0
		for _, n := range nodes {
			if n.Quarantine != nil && n.Quarantine.State == "quarantined" {
				out++
			}
			for _, slot := range n.Slots {
				if slot.Use == nil {
					continue
				}
				labels := []string{n.Name, strconv.Itoa(slot.Index)}
				gauge(c.util, slot.Use.Util, labels...)
				gauge(c.memory, float64(slot.Use.MemoryUsed), labels...)
				gauge(c.memoryTotal, float64(slot.Use.MemoryTotal), labels...)
				gauge(c.power, slot.Use.PowerW, labels...)
				gauge(c.temp, slot.Use.TempC, labels...)
			}
		}
		gauge(c.quarantined, float64(out))
	}
}

func (c *scrape) overview(ch chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64, ...string)) {
	o, err := c.s.Cluster.Overview(observer())
	if err != nil {
		gauge(c.up, 0)
		return
	}
	flag := func(d *prometheus.Desc, is bool) { gauge(d, map[bool]float64{true: 1}[is]) }
	flag(c.up, o.Problem == "")
	flag(c.paused, o.StartingPaused != "")
	gauge(c.damages, float64(len(o.Damages)))
	for _, n := range []struct {
		state string
		jobs  int
	}{
		{api.Running, o.Running}, {api.Waiting, o.Waiting}, {api.Paused, o.Paused},
		{api.Finished, o.Finished}, {api.Failed, o.Failed}, {api.Cancelled, o.Cancelled},
	} {
		gauge(c.jobs, float64(n.jobs), n.state)
	}
	gauge(c.queue, float64(o.Waiting))
	for reason, n := range o.WaitingFor {
		gauge(c.waitingFor, float64(n), reason)
	}
	gauge(c.reporting, float64(o.Reporting))
	gauge(c.useful, o.Useful)
	gauge(c.gpus, float64(o.GPUs))
	gauge(c.held, float64(o.Held))
	ch <- prometheus.MustNewConstMetric(c.journal, prometheus.CounterValue, float64(o.Seq))
	ch <- prometheus.MustNewConstMetric(c.decided, prometheus.CounterValue, float64(o.Decisions))
}
