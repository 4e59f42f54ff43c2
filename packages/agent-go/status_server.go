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

var accepted = map[string]any{"accepted": true}

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
	Acknowledged  []int64         `json:"acknowledged,omitempty"`
}

func (r *report) isFinal() bool { return slices.Contains(finalStatuses, r.Status) }

// message returns the report for the control plane.
func (r *report) message() message {
	text, _ := json.Marshal(report{Status: r.Status, FailureReason: r.FailureReason, EndReason: r.EndReason})
	return message{resource: "status", text: string(text), isFinal: r.isFinal()}
}

func (r *report) check() error {
	known := r.isFinal() || slices.Contains(liveStatuses, r.Status)
	switch {
	case r.Status != "" && !known:
		return fmt.Errorf("status %q is unknown: use one of %v or %v", r.Status, liveStatuses, finalStatuses)
	case r.Status == "" && (r.FailureReason != "" || r.EndReason != ""):
		return fmt.Errorf("failureReason and endReason go with a status")
	case r.EndReason != "" && r.Status != "CALL_ENDED" && !r.isFinal():
		return fmt.Errorf("endReason goes with CALL_ENDED, DONE or FAILED, not with %s", r.Status)
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
	url         string
	token       string
	commands    *commandQueue
	onReport    func(report)
	onEvents    func([]json.RawMessage)
	onArtifacts func(json.RawMessage)
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
	routes.HandleFunc("/status", s.guarded(http.MethodPost, s.status))
	routes.HandleFunc("/events", s.guarded(http.MethodPost, s.events))
	routes.HandleFunc("/artifacts", s.guarded(http.MethodPost, s.artifacts))
	routes.HandleFunc("/commands", s.guarded(http.MethodGet, s.listCommands))
	go func() { _ = http.Serve(listener, routes) }()
	return nil
}

// handler returns fields of the answer, or the reason why the request is wrong.
type handler func([]byte) (map[string]any, error)

func (s *statusServer) guarded(method string, handle handler) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		token := request.URL.Query().Get("token")
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, requestLimit))
		switch {
		case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
			refuse(response, http.StatusForbidden, "the token is wrong: use the address in BOTPOOL_STATUS_URL")
		case request.Method != method:
			refuse(response, http.StatusMethodNotAllowed, "use "+method)
		case err != nil:
			refuse(response, http.StatusRequestEntityTooLarge, err.Error())
		case !utf8.Valid(body):
			refuse(response, http.StatusUnprocessableEntity, "the body is not UTF-8")
		default:
			fields, err := handle(body)
			if err != nil {
				refuse(response, http.StatusUnprocessableEntity, err.Error())
				return
			}
			answer(response, http.StatusOK, fields)
		}
	}
}

func (s *statusServer) listCommands([]byte) (map[string]any, error) {
	return map[string]any{"commands": s.commands.list()}, nil
}

func (s *statusServer) artifacts(body []byte) (map[string]any, error) {
	var received struct {
		Artifacts []json.RawMessage `json:"artifacts"`
	}
	if err := decode(body, &received); err != nil {
		return nil, err
	}
	s.onArtifacts(body)
	return accepted, nil
}

func (s *statusServer) status(body []byte) (map[string]any, error) {
	var received report
	if err := decode(body, &received); err != nil {
		return nil, err
	}
	if err := received.check(); err != nil {
		return nil, err
	}
	s.commands.finish(received.Acknowledged)
	s.onReport(received)
	return accepted, nil
}

func (s *statusServer) events(body []byte) (map[string]any, error) {
	var received struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := decode(body, &received); err != nil {
		return nil, err
	}
	for _, each := range received.Events {
		if len(each) > eventBytes {
			return nil, fmt.Errorf("an event is larger than %d bytes", eventBytes)
		}
	}
	s.onEvents(received.Events)
	return accepted, nil
}

func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf(`the body must be JSON such as {"status": "IN_CALL"}: %w`, err)
	}
	return nil
}

func refuse(response http.ResponseWriter, status int, detail string) {
	answer(response, status, map[string]any{"detail": detail})
}

func answer(response http.ResponseWriter, status int, fields map[string]any) {
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(status)
	_ = json.NewEncoder(response).Encode(fields)
}
