package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

const (
	eventsPerCall = 100
	eventBytes    = 8 << 10
	waitingEvents = 1000 // during a long outage further events are dropped, statuses never
)

type message struct {
	resource string
	text     string
}

// outbox delivers reports in order and keeps each at the head until the control plane has answered, so
// that an outage loses nothing and DONE never overtakes IN_CALL.
type outbox struct {
	calls  *transport
	path   string
	delays backoff

	ctx     context.Context // ends with the outbox
	stop    context.CancelFunc
	mutex   sync.Mutex
	waiting []message
	events  int
	closed  bool
	filled  chan struct{} // holds a value if reports may wait
	empty   chan struct{} // closed while none waits
}

func newOutbox(ctx context.Context, calls *transport, botID int64, delays backoff) *outbox {
	ctx, stop := context.WithCancel(ctx)
	empty := make(chan struct{})
	close(empty)
	return &outbox{
		ctx:    ctx,
		stop:   stop,
		calls:  calls,
		path:   fmt.Sprintf("/v1/agent/bots/%d/", botID),
		delays: delays,
		filled: make(chan struct{}, 1),
		empty:  empty,
	}
}

func (o *outbox) put(one message) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.closed {
		return
	}
	if one.resource == "events" {
		if o.events >= waitingEvents {
			say("An event was dropped: %d events are already queued.", waitingEvents)
			return
		}
		o.events++
	}
	if len(o.waiting) == 0 {
		o.empty = make(chan struct{})
	}
	o.waiting = append(o.waiting, one)
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

// drained returns a channel that is closed when every report is delivered or dropped.
func (o *outbox) drained() <-chan struct{} {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.empty
}

// close drops queued reports and accepts no more: the assignment is over.
func (o *outbox) close() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.closed = true
	o.stop()
	o.remove(len(o.waiting))
}

// remove takes reports from the head. The caller holds the mutex.
func (o *outbox) remove(count int) {
	for _, each := range o.waiting[:count] {
		if each.resource == "events" {
			o.events--
		}
	}
	o.waiting = o.waiting[count:]
	if count > 0 && len(o.waiting) == 0 {
		close(o.empty)
	}
}

// nextBatch returns the status at the head alone, or all events up to the next status.
func (o *outbox) nextBatch() []message {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	count := 0
	for count < min(len(o.waiting), eventsPerCall) && o.waiting[count].resource == "events" {
		count++
	}
	return o.waiting[:max(count, min(len(o.waiting), 1))]
}

// run delivers reports, one call at a time.
func (o *outbox) run() {
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.filled:
		}
		for batch := o.nextBatch(); len(batch) > 0; batch = o.nextBatch() {
			if !o.deliver(batch) {
				return
			}
			o.mutex.Lock()
			o.remove(min(len(batch), len(o.waiting)))
			o.mutex.Unlock()
		}
	}
}

// deliver returns false if the outbox ended first.
func (o *outbox) deliver(batch []message) bool {
	body := batch[0].text
	if batch[0].resource == "events" {
		texts := make([]string, len(batch))
		for i, each := range batch {
			texts[i] = each.text
		}
		body = `{"events":[` + strings.Join(texts, ",") + `]}`
	}
	path := o.path + batch[0].resource
	_, err := o.calls.untilAnswered(o.ctx, o.delays, http.MethodPost, path, []byte(body))
	var refusal *refused
	if errors.As(err, &refusal) {
		// A refused report must not end the meeting.
		say("Dropped a report (%s). %s", batch[0].resource, refusal)
		return true
	}
	return err == nil
}
