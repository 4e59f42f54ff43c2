package main

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"
)

// restarted tells whether the limit of --finish starts (again).
func restarted(b *bot) bool {
	select {
	case <-b.callEnded:
		return true
	default:
		return false
	}
}

func TestOnlyChangedProgressAfterTheCallRestartsTheLimit(t *testing.T) {
	calls := newTransport(settings{url: &url.URL{Scheme: "http", Host: "botpool.test"}}, time.Second)
	b := &bot{
		body:      newHeartbeatBody(),
		outbox:    newOutbox(context.Background(), calls, 7, newBackoff(time.Second)),
		callEnded: make(chan struct{}, 1),
	}
	steps := []struct {
		name     string
		report   report
		restarts bool
	}{
		{"progress in the call", report{Progress: json.RawMessage(`{"n":1}`)}, false},
		{"end of the call", report{Status: "CALL_ENDED"}, true},
		{"the same progress", report{Progress: json.RawMessage(`{"n":1}`)}, false},
		{"new progress", report{Progress: json.RawMessage(`{"n":2}`)}, true},
		{"the same progress again", report{Progress: json.RawMessage(`{"n":2}`)}, false},
		{"a time of media", report{LastMediaAt: "2026-11-18T01:00:00Z"}, false},
	}
	for _, step := range steps {
		b.takeReport(step.report)
		if got := restarted(b); got != step.restarts {
			t.Errorf("%s: restarts is %v", step.name, got)
		}
	}
}

func TestDelaysDoubleUpToTheLongest(t *testing.T) {
	delays := newBackoff(4 * time.Minute)
	for _, highest := range []int{4, 8, 16, 32, 64, 128, 240, 240} {
		limit := time.Duration(highest) * time.Second
		if delay := delays.next(); delay < limit/2 || delay > limit {
			t.Errorf("%s is not between half of %s and %s", delay, limit, limit)
		}
	}
}
