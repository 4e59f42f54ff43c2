package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	permissionLimit = 2 * time.Second
	stoppedEarly    = "The container was stopped before the bot's join time."
)

// joinTime is the time at which a scheduled bot joins, by this process's monotonic clock. Heartbeats may
// move it. The control plane sends durations, because the container's clock may be wrong.
type joinTime struct {
	mutex sync.Mutex
	at    time.Time
	moved chan struct{} // holds a value after a change
}

func newJoinTime() *joinTime {
	return &joinTime{moved: make(chan struct{}, 1)}
}

func (j *joinTime) set(remainingMs float64) {
	j.mutex.Lock()
	j.at = time.Now().Add(time.Duration(remainingMs * float64(time.Millisecond)))
	j.mutex.Unlock()
	select {
	case j.moved <- struct{}{}:
	default:
	}
}

func (j *joinTime) remaining() time.Duration {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return time.Until(j.at)
}

// permission is the answer to the report of JOINING_CALL.
type permission struct {
	Applied    *bool    `json:"applied"`
	JoinInMs   *float64 `json:"joinInMs"`
	ShouldExit bool     `json:"shouldExit"`
}

// waitToJoin reports JOINING_CALL; a scheduled bot first waits until its time and then asks for permission. It
// returns false and the exit code if the bot must not join.
func (b *bot) waitToJoin(ctx context.Context) (int, bool) {
	if b.identity.JoinInMs == nil {
		b.report(report{Status: "JOINING_CALL"})
		return 0, true
	}
	for {
		if code, ok := b.waitForJoinTime(); !ok {
			return code, false
		}
		answer := b.askToJoin(ctx)
		switch {
		case answer.ShouldExit:
			b.release()
		case answer.JoinInMs == nil || answer.Applied == nil || *answer.Applied:
			return 0, true
		default:
			b.joinTime.set(*answer.JoinInMs)
		}
	}
}

// waitForJoinTime returns false and the exit code if the bot was cancelled or the container is stopped before, or
// if the self-fence ends: Botpool may have replaced the bot.
func (b *bot) waitForJoinTime() (int, bool) {
	for {
		select {
		case <-b.released:
			say("Bot %d was cancelled before its join time.", b.identity.Bot.ID)
			return 0, false
		default:
		}
		if b.fence.isOver() {
			say("Botpool has not answered for %s: the bot does not join.", b.fence.limit)
			return b.endEarly(exitFailure), false
		}
		left := b.joinTime.remaining()
		if left <= 0 {
			return 0, true
		}
		timer, silence := time.NewTimer(left), b.fence.timer()
		select {
		case <-timer.C:
		case <-silence.C:
		case <-b.joinTime.moved:
		case <-b.released:
		case <-b.leave:
			return b.endEarly(exitFailure), false
		case received := <-b.signals:
			if isStop(received) {
				b.stopping = true
				return b.endEarly(128 + int(received.(syscall.Signal))), false
			}
		}
		timer.Stop()
		silence.Stop()
	}
}

func (b *bot) endEarly(code int) int {
	say("%s", stoppedEarly)
	b.report(report{Status: "FAILED", FailureReason: stoppedEarly})
	return code
}

// askToJoin reports JOINING_CALL and returns the answer. Without an answer in time, the bot joins.
func (b *bot) askToJoin(ctx context.Context) permission {
	ctx, cancel := context.WithTimeout(ctx, permissionLimit)
	defer cancel()
	path := fmt.Sprintf("/v1/agent/bots/%d/status", b.identity.Bot.ID)
	var answer permission
	content, err := b.calls.call(ctx, http.MethodPost, path, []byte(`{"status":"JOINING_CALL"}`))
	if err == nil {
		err = json.Unmarshal(content, &answer)
	}
	if err != nil {
		say("No permission to join came in time; the bot joins. %s", err)
		b.report(report{Status: "JOINING_CALL"})
		return permission{}
	}
	return answer
}
