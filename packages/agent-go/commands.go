package main

import (
	"encoding/json"
	"sync"
)

// commandQueue keeps the commands to the bot, in order, until the program acknowledges them.
type commandQueue struct {
	body *heartbeatBody

	mutex   sync.Mutex
	waiting []json.RawMessage
	ids     []int64 // of waiting
	handled map[int64]bool
}

func newCommandQueue(body *heartbeatBody) *commandQueue {
	return &commandQueue{body: body, handled: map[int64]bool{}}
}

// receive adds new commands; a heartbeat may bring a command several times.
func (q *commandQueue) receive(commands []json.RawMessage) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for _, each := range commands {
		var command struct {
			ID int64 `json:"id"`
		}
		if json.Unmarshal(each, &command) != nil {
			continue
		}
		if handled, known := q.handled[command.ID]; handled {
			q.body.acknowledge(command.ID)
		} else if !known {
			q.handled[command.ID] = false
			q.waiting = append(q.waiting, each)
			q.ids = append(q.ids, command.ID)
		}
	}
}

// list returns the commands that the program has not acknowledged.
func (q *commandQueue) list() []json.RawMessage {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return append([]json.RawMessage{}, q.waiting...)
}

// finish acknowledges commands; ids of others are ignored.
func (q *commandQueue) finish(acknowledged []int64) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for _, id := range acknowledged {
		for i, waiting := range q.ids {
			if waiting == id {
				q.handled[id] = true
				q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
				q.ids = append(q.ids[:i:i], q.ids[i+1:]...)
				q.body.acknowledge(id)
				q.body.sendNow()
				break
			}
		}
	}
}
