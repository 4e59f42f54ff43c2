package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	pollTime         = 30 * time.Second
	longestPollRetry = 2 * time.Second
)

// standbyAnswer is the answer to the poll of a container that Botpool started before it had a bot.
type standbyAnswer struct {
	ShouldExit bool `json:"shouldExit"`
	Assignment *struct {
		Token       string            `json:"token"`
		Environment map[string]string `json:"environment"`
	} `json:"assignment"`
}

// waitForAssignment polls until Botpool hands a bot over, and returns the settings of this bot; nil if this
// container gets no bot any more. One long poll is always open: it tells Botpool that the container is ready. A
// lost answer comes again with the next poll.
func waitForAssignment(ctx context.Context, from settings, bootID string, timeout time.Duration) (*settings, error) {
	calls := newTransport(from, pollTime+timeout)
	path := "/v1/agent/assignment?wait=" + strconv.Itoa(int(pollTime.Seconds())) + "&bootId=" + bootID
	for {
		content, err := calls.untilAnswered(ctx, newBackoff(longestPollRetry), nil, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		var answer standbyAnswer
		if err := json.Unmarshal(content, &answer); err != nil {
			return nil, fmt.Errorf("the control plane's answer to the poll is malformed (%w). "+
				"Check that its version fits this agent's", err)
		}
		if answer.ShouldExit {
			return nil, nil
		}
		if found := answer.Assignment; found != nil && found.Token != "" {
			for name, value := range found.Environment {
				if err := os.Setenv(name, value); err != nil {
					return nil, fmt.Errorf("the variable %q of the bot cannot be set: %w", name, err)
				}
			}
			from.token, from.onStandby = found.Token, false
			from.correlationID = correlationIDIn(found.Environment["BOT_DATA"])
			return &from, nil
		}
	}
}
