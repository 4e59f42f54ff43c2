package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

const acknowledgedPerCall = 100

// instructions are the answer to a heartbeat.
type instructions struct {
	ShouldLeave bool              `json:"shouldLeave"`
	ShouldExit  bool              `json:"shouldExit"`
	JoinInMs    *float64          `json:"joinInMs"`
	Commands    []json.RawMessage `json:"commands"`
}

// heartbeatBody holds what the next heartbeats tell.
type heartbeatBody struct {
	mutex  sync.Mutex
	fields map[string]json.RawMessage
	// acknowledged commands stay here until a heartbeat with them is answered.
	acknowledged []int64
	urgent       chan struct{} // holds a value if a heartbeat must be sent at once
}

func newHeartbeatBody() *heartbeatBody {
	return &heartbeatBody{fields: map[string]json.RawMessage{}, urgent: make(chan struct{}, 1)}
}

// finishing tells that the call is over, in a heartbeat that is sent at once. It also acknowledges a
// leave request.
func (b *heartbeatBody) finishing() {
	if b.set("phase", json.RawMessage(`"finishing"`)) {
		b.sendNow()
	}
}

// acknowledge acknowledges a command in the next heartbeats, until one of them is answered.
func (b *heartbeatBody) acknowledge(id int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !slices.Contains(b.acknowledged, id) {
		b.acknowledged = append(b.acknowledged, id)
	}
}

// sendNow makes the next heartbeat urgent.
func (b *heartbeatBody) sendNow() {
	select {
	case b.urgent <- struct{}{}:
	default:
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

// next returns the body, empty if there is nothing to tell, and the commands that it acknowledges.
func (b *heartbeatBody) next() ([]byte, []int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	acknowledged := slices.Clone(b.acknowledged[:min(len(b.acknowledged), acknowledgedPerCall)])
	fields := maps.Clone(b.fields)
	if len(acknowledged) > 0 {
		fields["acknowledged"], _ = json.Marshal(acknowledged)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	text, _ := json.Marshal(fields) // its values are valid JSON
	return text, acknowledged
}

// answered forgets acknowledgements that have arrived.
func (b *heartbeatBody) answered(acknowledged []int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.acknowledged = slices.DeleteFunc(b.acknowledged, func(id int64) bool {
		return slices.Contains(acknowledged, id)
	})
}

// keepHeartbeat sends heartbeats until the control plane instructs the bot to exit. A failure never
// ends it: the meeting continues while the control plane is unreachable.
func keepHeartbeat(
	ctx context.Context, calls *transport, known *identity, body *heartbeatBody, apply func(instructions),
) {
	path := fmt.Sprintf("/v1/agent/bots/%d/heartbeat", known.Bot.ID)
	for {
		wait := spread(known.heartbeatInterval(), 0.9, 1.1)
		text, acknowledged := body.next()
		answer, err := calls.call(ctx, http.MethodPost, path, text)
		var outage *unavailable
		var received instructions
		switch {
		case errors.As(err, &outage):
			wait = max(wait, outage.retryAfter)
		case err != nil:
			say("A heartbeat was refused; the bot continues. %s", err)
		case json.Unmarshal(answer, &received) == nil:
			body.answered(acknowledged)
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
