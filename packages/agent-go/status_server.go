package main

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"unicode/utf8"
)

const (
	requestLimit  = 64 << 10
	progressBytes = 4 << 10
)

var (
	liveStatuses  = []string{"JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED"}
	finalStatuses = []string{"DONE", "FAILED", "FATAL"}
)

// report is the body of POST /status. Every field is optional.
type report struct {
	Status        string          `json:"status,omitempty"`
	FailureReason string          `json:"failureReason,omitempty"`
	EndReason     string          `json:"endReason,omitempty"`
	Phase         string          `json:"phase,omitempty"`
	LastMediaAt   string          `json:"lastMediaAt,omitempty"`
	Progress      json.RawMessage `json:"progress,omitempty"`
}

func (r *report) isFinal() bool { return slices.Contains(finalStatuses, r.Status) }

// message returns the report for the control plane.
func (r *report) message() message {
	text, _ := json.Marshal(report{Status: r.Status, FailureReason: r.FailureReason, EndReason: r.EndReason})
	return message{resource: "status", text: string(text)}
}

func (r *report) check() error {
	known := r.isFinal() || slices.Contains(liveStatuses, r.Status)
	switch {
	case r.Status != "" && !known:
		return fmt.Errorf("status %q is unknown: use one of %v or %v", r.Status, liveStatuses, finalStatuses)
	case r.Status == "" && (r.FailureReason != "" || r.EndReason != ""):
		return fmt.Errorf("failureReason and endReason go with a status")
	case r.FailureReason != "" && r.Status != "FAILED" && r.Status != "FATAL":
		return fmt.Errorf("failureReason goes with FAILED, not with %s", r.Status)
	case r.Phase != "" && r.Phase != "finishing":
		return fmt.Errorf("phase %q is unknown: use finishing", r.Phase)
	case len(r.Progress) > progressBytes:
		return fmt.Errorf("progress is larger than %d bytes", progressBytes)
	case len(r.Progress) > 0 && bytes.TrimSpace(r.Progress)[0] != '{':
		return fmt.Errorf("progress must be an object")
	}
	return nil
}

// statusServer takes finer reports from the command, on loopback. Its address has a random token,
// because bots of a process pool share a machine.
type statusServer struct {
	url      string
	token    string
	onReport func(report)
	onEvents func([]json.RawMessage)
}

// listen serves in the background and sets the address.
func (s *statusServer) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.token = newRandomID()
	s.url = fmt.Sprintf("http://%s/status?token=%s", listener.Addr(), s.token)
	routes := http.NewServeMux()
	routes.HandleFunc("/status", s.guarded(s.status))
	routes.HandleFunc("/events", s.guarded(s.events))
	go func() { _ = http.Serve(listener, routes) }()
	return nil
}

func (s *statusServer) guarded(handle func([]byte) error) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		token := request.URL.Query().Get("token")
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, requestLimit))
		switch {
		case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
			answer(response, http.StatusForbidden, "the token is wrong: use the address in BOTPOOL_STATUS_URL")
		case request.Method != http.MethodPost:
			answer(response, http.StatusMethodNotAllowed, "use POST")
		case err != nil:
			answer(response, http.StatusRequestEntityTooLarge, err.Error())
		case !utf8.Valid(body):
			answer(response, http.StatusUnprocessableEntity, "the body is not UTF-8")
		default:
			if err := handle(body); err != nil {
				answer(response, http.StatusUnprocessableEntity, err.Error())
				return
			}
			answer(response, http.StatusOK, "")
		}
	}
}

func (s *statusServer) status(body []byte) error {
	var received report
	if err := decode(body, &received); err != nil {
		return err
	}
	if err := received.check(); err != nil {
		return err
	}
	s.onReport(received)
	return nil
}

func (s *statusServer) events(body []byte) error {
	var received struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := decode(body, &received); err != nil {
		return err
	}
	for _, each := range received.Events {
		if len(each) > eventBytes {
			return fmt.Errorf("an event is larger than %d bytes", eventBytes)
		}
	}
	s.onEvents(received.Events)
	return nil
}

func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf(`the body must be JSON such as {"status": "IN_CALL"}: %w`, err)
	}
	return nil
}

func answer(response http.ResponseWriter, status int, detail string) {
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	body := map[string]any{"accepted": status == http.StatusOK}
	if detail != "" {
		body["detail"] = detail
	}
	_ = json.NewEncoder(response).Encode(body)
}
