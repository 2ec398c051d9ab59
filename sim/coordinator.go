// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

// AntMan's local coordinator (OSDI'20) starts a guest with little of the GPU and
// raises its part only while the steps of the other job, the host, take no longer.
// Its authors looked at 10,000 hosts: 9,895 were not slowed, and none by more than 4 %.
const (
	hostHarmed = 105. / 10000 // part of the hosts that are slowed
	hostSlowed = 0.04         // by at most this
	guestLeast = 0.01         // of its speed that a guest keeps: it is never stopped
)

// coordinated returns the slowdown of a job where a coordinator throttles guests: the
// host is hardly slowed, and a guest gets the time that the host leaves.
func (r *run) coordinated(j *job, others []*job, slowdown float64, seed uint64) float64 {
	if !r.Coordinator {
		return slowdown
	}
	own, most := shareOf(j), int32(0)
	busy := 0.0 // of the job with the largest share
	for _, other := range others {
		if s := shareOf(other); s > most {
			most, busy = s, other.work.trueUtil()
		}
	}
	switch {
	case own > most:
		if draw := float64(mix(seed, 1)>>11) / (1 << 53); draw < hostHarmed {
			return min(slowdown, 1+hostSlowed*draw/hostHarmed)
		}
		return 1
	case own < most:
		speed := min(1, max(guestLeast, (1-busy)/j.work.trueUtil()))
		return max(slowdown, 1/speed)
	}
	return slowdown
}

// shareOf returns the share of each GPU that a job holds.
func shareOf(j *job) int32 { return j.setting.placement[0].Milli }
