package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// identity is the answer to the identity request: the bot of this container.
type identity struct {
	Bot struct {
		ID            int64  `json:"id"`
		MeetingURL    string `json:"meetingUrl"`
		DisplayName   string `json:"botDisplayName"`
		Platform      string `json:"platform"`
		CorrelationID string `json:"correlationId"`
	} `json:"bot"`
	BotData             map[string]json.RawMessage `json:"botData"`
	Released            bool                       `json:"released"`
	HeartbeatIntervalMs float64                    `json:"heartbeatIntervalMs"`
	JoinInMs            *float64                   `json:"joinInMs"` // nil unless the bot is scheduled
}

func (known *identity) heartbeatInterval() time.Duration {
	return time.Duration(known.HeartbeatIntervalMs * float64(time.Millisecond))
}

// botDataVariable returns the contents of BOT_DATA, for a bot whose data Botpool left out because of its size.
func (known *identity) botDataVariable() string {
	data := known.BotData
	if data == nil {
		data = map[string]json.RawMessage{}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]any{
		"id": known.Bot.ID, "meetingUrl": known.Bot.MeetingURL, "botDisplayName": known.Bot.DisplayName,
		"platform": known.Bot.Platform, "correlationId": known.Bot.CorrelationID, "botData": data,
	})
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text.Bytes()))
}

// newRandomID returns a boot id, which distinguishes this start from a restart within the same
// assignment, or the token of the status address.
func newRandomID() string {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(random[:])
}

// identify requests the identity and repeats the request, with the same boot id, until it is answered.
func identify(ctx context.Context, calls *transport, containerID, bootID string, delays backoff) (*identity, error) {
	path := "/v1/agent/slot?containerId=" + url.QueryEscape(containerID) + "&bootId=" + bootID
	answer, err := calls.untilAnswered(ctx, delays, nil, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	var known identity
	err = json.Unmarshal(answer, &known)
	if err == nil && (known.Bot.ID == 0 || known.HeartbeatIntervalMs <= 0) {
		err = fmt.Errorf("bot.id or heartbeatIntervalMs is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("the control plane's answer to the identity request is malformed (%w). "+
			"Check that its version fits this agent's", err)
	}
	calls.correlationID = known.Bot.CorrelationID
	return &known, nil
}
