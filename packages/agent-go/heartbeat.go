package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// instructions are the answer to a heartbeat.
type instructions struct {
	ShouldLeave bool `json:"shouldLeave"`
	ShouldExit  bool `json:"shouldExit"`
}

// heartbeatBody holds what the next heartbeats tell.
type heartbeatBody struct {
	mutex  sync.Mutex
	fields map[string]json.RawMessage
	urgent chan struct{} // holds a value if a heartbeat must be sent at once
}

func newHeartbeatBody() *heartbeatBody {
	return &heartbeatBody{fields: map[string]json.RawMessage{}, urgent: make(chan struct{}, 1)}
}

// finishing tells that the call is over, in a heartbeat that is sent at once. It also acknowledges a
// leave request.
func (b *heartbeatBody) finishing() {
	if b.set("phase", json.RawMessage(`"finishing"`)) {
		select {
		case b.urgent <- struct{}{}:
		default:
		}
	}
}

// set returns whether the field has changed.
func (b *heartbeatBody) set(name string, value json.RawMessage) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	changed := !bytes.Equal(b.fields[name], value)
	b.fields[name] = value
	return changed
}

func (b *heartbeatBody) isFinishing() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.fields["phase"] != nil
}

func (b *heartbeatBody) text() []byte {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.fields) == 0 {
		return nil
	}
	text, _ := json.Marshal(b.fields) // its values are valid JSON
	return text
}

// keepHeartbeat sends heartbeats until the control plane instructs the bot to exit. A failure never
// ends it: the meeting continues while the control plane is unreachable.
func keepHeartbeat(
	ctx context.Context, calls *transport, known *identity, body *heartbeatBody, apply func(instructions),
) {
	path := fmt.Sprintf("/v1/agent/bots/%d/heartbeat", known.Bot.ID)
	for {
		wait := spread(known.heartbeatInterval(), 0.9, 1.1)
		answer, err := calls.call(ctx, http.MethodPost, path, body.text())
		var outage *unavailable
		var received instructions
		switch {
		case errors.As(err, &outage):
			wait = max(wait, outage.retryAfter)
		case err != nil:
			say("A heartbeat was refused; the bot continues. %s", err)
		case json.Unmarshal(answer, &received) == nil:
			apply(received)
			if received.ShouldExit {
				return
			}
		}
		if !body.wait(ctx, wait) {
			return
		}
	}
}

// wait returns at the time of the next heartbeat; false if the context ended first.
func (b *heartbeatBody) wait(ctx context.Context, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.urgent:
		return true
	case <-ctx.Done():
		return false
	}
}
