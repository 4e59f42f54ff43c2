package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	bodyLimit         = 4 << 20 // far above the largest answer (botData of 64 KiB)
	longestRetryAfter = 120 * time.Second
)

// unavailable: the control plane did not answer. Retry, and conclude nothing.
type unavailable struct {
	problem    string
	retryAfter time.Duration
	limited    bool // refused for now because of a limit
}

func (e *unavailable) Error() string {
	if e.limited {
		return "The control plane limits the calls: " + e.problem
	}
	return "The control plane does not answer: " + e.problem
}

// refused: the control plane refused the call. A retry cannot help.
type refused struct {
	status int
	detail string
}

func (e *refused) Error() string {
	return fmt.Sprintf("The control plane refused the call (%d): %s", e.status, e.detail)
}

// transport sends each call on its own short connection: kept connections of a thousand agents would
// hold a thousand sockets of the control plane.
type transport struct {
	base          string
	token         string
	correlationID string
	client        *http.Client

	mutex       sync.Mutex
	unreachable bool
}

func newTransport(from settings, timeout time.Duration) *transport {
	base := *from.url
	base.User, base.RawQuery, base.Fragment = nil, "", ""
	return &transport{
		base:          strings.TrimRight(base.String(), "/"),
		token:         from.token,
		correlationID: from.correlationID,
		client: &http.Client{
			Timeout:   timeout,
			Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// call sends a request and returns the JSON object of the answer, or *refused or *unavailable.
func (t *transport) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	answer, err := t.send(ctx, method, path, body)
	var outage *unavailable
	if errors.As(err, &outage) && outage.limited {
		outage = nil
	}
	if ctx.Err() == nil {
		t.logReachability(outage)
	}
	return answer, err
}

// untilAnswered repeats an idempotent call until the control plane answers, also with a refusal, or with an
// outage that is an answer for the caller (nil: none is).
func (t *transport) untilAnswered(
	ctx context.Context, delays backoff, isAnswer func(*unavailable) bool, method, path string, body []byte,
) ([]byte, error) {
	for {
		answer, err := t.call(ctx, method, path, body)
		var outage *unavailable
		if !errors.As(err, &outage) || (isAnswer != nil && isAnswer(outage)) {
			return answer, err
		}
		if !sleep(ctx, outage.retryAfter+delays.next()) {
			return nil, ctx.Err()
		}
	}
}

func (t *transport) send(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, &unavailable{problem: err.Error()}
	}
	request.Header.Set("Authorization", "Bearer "+t.token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "botpool-agent")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	// The correlation id comes from a user: omit one that could break out of its header.
	if t.correlationID != "" && isVisible(t.correlationID) {
		request.Header.Set("X-Correlation-ID", t.correlationID)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return nil, &unavailable{problem: err.Error()}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit+1))
	if err == nil && len(content) > bodyLimit {
		err = fmt.Errorf("the answer is larger than %d bytes", bodyLimit)
	}
	if err != nil {
		return nil, &unavailable{problem: err.Error()}
	}
	return interpret(response, content)
}

func (t *transport) logReachability(outage *unavailable) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if outage != nil && !t.unreachable {
		say("%s. Retrying.", outage)
	} else if outage == nil && t.unreachable {
		say("The control plane answers again.")
	}
	t.unreachable = outage != nil
}

// interpret separates answers, refusals and outages.
func interpret(response *http.Response, content []byte) ([]byte, error) {
	var object map[string]json.RawMessage
	isObject := json.Unmarshal(content, &object) == nil && object != nil
	status := response.StatusCode
	switch {
	case status >= 200 && status < 300 && isObject:
		return content, nil
	case status >= 200 && status < 300:
		return nil, &unavailable{problem: "the answer is not a JSON object; is this Botpool's address?"}
	case status == 429:
		return nil, &unavailable{problem: detail(response, content), retryAfter: retryAfter(response), limited: true}
	case status == 408, status == 425, status >= 500:
		return nil, &unavailable{problem: "HTTP " + strconv.Itoa(status), retryAfter: retryAfter(response)}
	case status == 404 && !isJSON(response):
		// A proxy such as Traefik answers 404 while its upstream is being redeployed. Only the
		// control plane's own 404, which is JSON, is evidence.
		return nil, &unavailable{problem: "HTTP 404 from something other than Botpool; is this Botpool's address?"}
	}
	return nil, &refused{status: status, detail: detail(response, content)}
}

func isJSON(response *http.Response) bool {
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

func detail(response *http.Response, content []byte) string {
	var problem struct{ Detail, Title string }
	_ = json.Unmarshal(content, &problem)
	status := response.StatusCode
	switch {
	case problem.Detail != "":
		return problem.Detail
	case problem.Title != "":
		return problem.Title
	case status == 401 || status == 403:
		return "BOTPOOL_TOKEN is not accepted."
	case status == 404:
		return "BOTPOOL_CONTAINER_ID is not the container of BOTPOOL_TOKEN."
	case status >= 300 && status < 400:
		return fmt.Sprintf("BOTPOOL_URL redirects to %s; set server.public_url to that address.",
			response.Header.Get("Location"))
	}
	return "no reason was given."
}

// retryAfter returns the Retry-After in seconds; a date is left to the backoff.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestRetryAfter)
}
