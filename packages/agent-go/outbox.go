package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	eventsPerCall = 100
	eventBytes    = 8 << 10
	waitingEvents = 1000 // during a long outage further events are dropped, statuses never
)

type message struct {
	resource string
	text     string
	isFinal  bool
}

// outbox delivers reports in order and keeps each until the control plane has answered, so that an
// outage loses nothing and DONE never overtakes IN_CALL. If the control plane limits the events (429),
// they wait for its Retry-After, and other reports overtake them.
type outbox struct {
	calls  *transport
	path   string
	delays backoff

	ctx     context.Context // ends with the outbox
	stop    context.CancelFunc
	mutex   sync.Mutex
	waiting []message
	events  int
	heldTo  time.Time // events wait until then
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
	if len(o.waiting) > 0 {
		o.waiting = nil
		close(o.empty)
	}
}

// remove takes delivered reports out. The caller holds the mutex.
func (o *outbox) remove(first, count int) {
	if count == 0 {
		return
	}
	delivered := o.waiting[first : first+count]
	isFinal := delivered[0].isFinal
	o.waiting = slices.Concat(o.waiting[:first], o.waiting[first+count:])
	if isFinal && len(o.waiting) > 0 {
		// The assignment is over: the control plane would record no further event.
		say("Dropped %d events that could not be delivered.", len(o.waiting))
		o.waiting = nil
	}
	o.events = 0
	for _, each := range o.waiting {
		if each.resource == "events" {
			o.events++
		}
	}
	if len(o.waiting) == 0 {
		close(o.empty)
	}
}

// nextBatch returns the place and number of the next reports to send: all events up to the next other
// report, or the report at the head alone. While events are held, it is the next other report, or none.
func (o *outbox) nextBatch() (first, count int, batch []message) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	isOther := func(each message) bool { return each.resource != "events" }
	other := slices.IndexFunc(o.waiting, isOther)
	switch {
	case len(o.waiting) == 0:
	case time.Now().Before(o.heldTo) && other < 0:
	case time.Now().Before(o.heldTo), other == 0:
		first, count = other, 1
	case other < 0:
		count = min(len(o.waiting), eventsPerCall)
	default:
		count = min(other, eventsPerCall)
	}
	return first, count, slices.Clone(o.waiting[first : first+count])
}

// run delivers reports, one call at a time.
func (o *outbox) run() {
	for o.ctx.Err() == nil {
		first, count, batch := o.nextBatch()
		if count == 0 {
			o.wait()
		} else if o.deliver(batch) {
			o.mutex.Lock()
			if !o.closed {
				o.remove(first, count)
			}
			o.mutex.Unlock()
		}
	}
}

// wait returns when a report arrives, when held events may be sent, or when the outbox ends.
func (o *outbox) wait() {
	timer := stoppedTimer()
	o.mutex.Lock()
	if len(o.waiting) > 0 {
		timer = time.NewTimer(time.Until(o.heldTo))
	}
	o.mutex.Unlock()
	defer timer.Stop()
	select {
	case <-o.ctx.Done():
	case <-o.filled:
	case <-timer.C:
	}
}

// deliver returns false if the outbox ended first, or if the control plane limits events, which then wait.
func (o *outbox) deliver(batch []message) bool {
	resource, body := batch[0].resource, batch[0].text
	if resource == "events" {
		texts := make([]string, len(batch))
		for i, each := range batch {
			texts[i] = each.text
		}
		body = `{"events":[` + strings.Join(texts, ",") + `]}`
	}
	isAnswer := func(outage *unavailable) bool { return resource == "events" && outage.limited }
	_, err := o.calls.untilAnswered(o.ctx, o.delays, isAnswer, http.MethodPost, o.path+resource, []byte(body))
	var refusal *refused
	var limit *unavailable
	switch {
	case errors.As(err, &refusal):
		// A refused report must not end the meeting.
		say("Dropped a report (%s). %s", resource, refusal)
		return true
	case errors.As(err, &limit) && limit.limited:
		wait := max(limit.retryAfter, time.Second)
		say("Events wait for %s. %s", wait, limit)
		o.mutex.Lock()
		o.heldTo = time.Now().Add(wait)
		o.mutex.Unlock()
	}
	return err == nil
}
