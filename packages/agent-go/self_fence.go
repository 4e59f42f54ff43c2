package main

import (
	"sync/atomic"
	"time"
)

const longestFencedLeave = 30 * time.Second // between the request to leave and SIGTERM

// selfFence lets a bot whose heartbeats Botpool does not answer leave its meeting: Botpool may have
// replaced it. A limit of 0 means that there is no fence.
type selfFence struct {
	limit    time.Duration
	start    time.Time
	answered atomic.Int64 // the last answer, in nanoseconds after start
}

func newSelfFence(limit time.Duration) *selfFence {
	return &selfFence{limit: limit, start: time.Now()}
}

func (f *selfFence) heard() {
	f.answered.Store(int64(time.Since(f.start)))
}

// left returns the time until the bot must leave.
func (f *selfFence) left() time.Duration {
	return time.Duration(f.answered.Load()) + f.limit - time.Since(f.start)
}

// isOver tells whether Botpool has not answered for so long that the bot must not be in its meeting.
func (f *selfFence) isOver() bool {
	return f.limit > 0 && f.left() <= 0
}

// timer returns a timer for the end of the limit, which may move until then.
func (f *selfFence) timer() *time.Timer {
	if f.limit == 0 {
		return stoppedTimer()
	}
	return time.NewTimer(f.left())
}

// leaveLimit returns how long the command may take to leave.
func (f *selfFence) leaveLimit() time.Duration {
	return min(f.limit, longestFencedLeave)
}
