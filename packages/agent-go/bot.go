package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stopLimit    = 5 * time.Second // for the last reports after SIGTERM, before a backend kills the container
	outputLimit  = 5 * time.Second // for the rest of the output, in case an orphan keeps the pipe open
	reasonLength = 1000
	exitNotFound = 127
)

// forwarded are the signals that the command receives too.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
}

// bot is one run of the command, from the identity request to the last report.
type bot struct {
	options  options
	settings settings
	calls    *transport
	identity *identity
	outbox   *outbox
	body     *heartbeatBody
	commands *commandQueue
	command  *command
	fence    *selfFence
	joinTime *joinTime

	signals       chan os.Signal
	leave         chan struct{} // closed when the bot must leave the meeting
	leaveOnce     sync.Once
	released      chan struct{} // closed when the assignment has ended
	releasedOnce  sync.Once
	callEnded     chan struct{} // holds a value when the call ended, or after progress since then
	finalReport   report        // the command's own final status, sent after its exit
	finalMutex    sync.Mutex
	stopping      bool // SIGTERM or SIGINT has arrived
	terminated    bool // the command has received SIGTERM
	finishExpired bool
	finishTimer   *time.Timer
	killTimer     *time.Timer
}

// runBot returns the exit code of the wrapper.
func runBot(chosen options, from settings) int {
	runtime.LockOSThread() // for the command's death signal
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := &bot{
		options:   chosen,
		settings:  from,
		calls:     newTransport(from, chosen.timeout),
		body:      newHeartbeatBody(),
		joinTime:  newJoinTime(),
		signals:   make(chan os.Signal, 16),
		leave:     make(chan struct{}),
		released:  make(chan struct{}),
		callEnded: make(chan struct{}, 1),
	}
	b.commands = newCommandQueue(b.body)
	signal.Notify(b.signals, forwarded...)
	// Without this, writing to closed output would end the wrapper.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if code, ok := b.identify(ctx); !ok {
		return code
	}
	b.fence = newSelfFence(b.settings.selfFence)
	b.outbox = newOutbox(ctx, b.calls, b.identity.Bot.ID, newBackoff(chosen.backoff))
	go b.outbox.run()
	if b.identity.JoinInMs != nil {
		b.joinTime.set(*b.identity.JoinInMs)
	}
	go keepHeartbeat(ctx, b.calls, b.identity, b.body, b.apply)
	code, joins := b.waitToJoin(ctx)
	if joins {
		code = b.runCommand(ctx)
	}
	b.deliver()
	b.waitForStop()
	return code
}

// identify returns false and the exit code if the bot must not run.
func (b *bot) identify(ctx context.Context) (int, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		answered <- b.becomeBot(ctx)
	}()
	for {
		select {
		case received := <-b.signals:
			if isStop(received) {
				return 128 + int(received.(syscall.Signal)), false
			}
		case err := <-answered:
			if err != nil {
				say("%s", err)
				return exitFailure, false
			}
			if b.identity == nil {
				say("This container was on standby and gets no bot any more.")
				b.waitForStop()
				return 0, false
			}
			if b.identity.Released {
				say("The slot of bot %d was released; this container must not run the bot.", b.identity.Bot.ID)
				b.waitForStop()
				return 0, false
			}
			return 0, true
		}
	}
}

// becomeBot requests the identity, on standby after Botpool has handed a bot over. Without an error and an
// identity, the container gets no bot.
func (b *bot) becomeBot(ctx context.Context) error {
	bootID := newRandomID()
	if b.settings.onStandby {
		found, err := waitForAssignment(ctx, b.settings, bootID, b.options.timeout)
		if err != nil || found == nil {
			return err
		}
		b.settings = *found
		b.calls = newTransport(b.settings, b.options.timeout)
	}
	var err error
	b.identity, err = identify(ctx, b.calls, b.settings.containerID, bootID, newBackoff(b.options.backoff))
	return err
}

func isStop(received os.Signal) bool {
	return received == syscall.SIGTERM || received == syscall.SIGINT
}

// apply follows the answer to a heartbeat.
func (b *bot) apply(received instructions) {
	b.fence.heard()
	if received.ShouldExit {
		b.release()
		return
	}
	if received.ShouldLeave {
		b.leaveOnce.Do(func() { close(b.leave) })
	} else if received.JoinInMs != nil {
		b.joinTime.set(*received.JoinInMs)
	}
	b.commands.receive(received.Commands)
}

// release ends the bot without further reports: its assignment has ended.
func (b *bot) release() {
	b.releasedOnce.Do(func() {
		b.outbox.close()
		close(b.released)
	})
}

// runCommand runs the command to its end and queues the last report. It returns the exit code.
func (b *bot) runCommand(ctx context.Context) int {
	server := &statusServer{
		commands: b.commands, onReport: b.takeReport, onEvents: b.takeEvents, onArtifacts: b.takeArtifacts,
	}
	if err := server.listen(); err != nil {
		say("The command cannot report finer states: %s", err)
	}
	var err error
	b.command, err = startCommand(b.options.command, commandEnvironment(os.Environ(), b.identity, server.url))
	if err != nil {
		say("%s", err)
		b.report(report{Status: "FAILED", FailureReason: err.Error()})
		return exitNotFound
	}
	status := b.supervise(ctx)
	select {
	case <-b.command.output.done():
	case <-time.After(outputLimit):
	}
	b.report(b.lastReport(status))
	return exitCode(status)
}

// takeReport takes a report of the command. A final status waits for the command's exit, because
// Botpool stops the container of a bot that has ended.
func (b *bot) takeReport(received report) {
	if received.isFinal() {
		b.finalMutex.Lock()
		b.finalReport = received
		b.finalMutex.Unlock()
	} else if received.Status != "" {
		b.report(received)
	}
	if received.LastMediaAt != "" {
		text, _ := json.Marshal(received.LastMediaAt)
		b.body.set("lastMediaAt", text)
	}
	changed := len(received.Progress) > 0 && b.body.set("progress", received.Progress)
	switch {
	case received.isFinal(), received.Status == "CALL_ENDED", received.Phase != "":
		b.callHasEnded()
	case changed && b.body.isFinishing():
		b.restartFinish()
	}
}

func (b *bot) takeEvents(events []json.RawMessage) {
	for _, each := range events {
		b.outbox.put(message{resource: "events", text: string(each)})
	}
}

func (b *bot) takeArtifacts(body json.RawMessage) {
	b.outbox.put(message{resource: "artifacts", text: string(body)})
}

// lastReport turns the command's exit into DONE or FAILED with the last lines of output.
func (b *bot) lastReport(status syscall.WaitStatus) report {
	b.finalMutex.Lock()
	last := b.finalReport
	b.finalMutex.Unlock()
	failed := last.Status == "FAILED" || last.Status == "FATAL"
	if exitCode(status) == 0 && !failed {
		last.Status = "DONE"
		return last
	}
	last.Status = "FAILED"
	if last.FailureReason == "" {
		last.FailureReason = b.failureReason(status)
	}
	return last
}

func (b *bot) failureReason(status syscall.WaitStatus) string {
	reason := describeExit(status)
	if b.finishExpired {
		reason = fmt.Sprintf("The command did not end within %s after its call.", b.options.finish)
	}
	if lines := b.command.output.lines(reasonLength - 200); lines != "" {
		reason += " Last output:\n" + lines
	}
	return reason
}

// report queues a status report; the token never appears in a reason.
func (b *bot) report(one report) {
	reason := []rune(strings.ReplaceAll(one.FailureReason, b.settings.token, "***"))
	one.FailureReason = string(reason[:min(len(reason), reasonLength)])
	b.outbox.put(one.message())
}

// deliver waits for the delivery of the last reports. Heartbeats continue meanwhile, so that Botpool
// does not count the bot as lost.
func (b *bot) deliver() {
	limit := max(b.options.finish, time.Minute)
	if b.stopping {
		limit = stopLimit
	}
	timer := time.NewTimer(limit)
	for {
		select {
		case <-b.outbox.drained():
			return
		case <-b.released:
			return
		case received := <-b.signals:
			if isStop(received) && !b.stopping {
				b.stopping = true
				timer = time.NewTimer(stopLimit)
			}
		case <-timer.C:
			say("Dropped the last reports, which could not be delivered.")
			return
		}
	}
}

// waitForStop waits for SIGTERM where the backend restarts every container that ends, so that the
// container does not start again before Botpool has stopped it.
func (b *bot) waitForStop() {
	if b.stopping || b.settings.waitForStop == 0 {
		return
	}
	timer := time.After(b.settings.waitForStop)
	for {
		select {
		case received := <-b.signals:
			if isStop(received) {
				return
			}
		case <-timer:
			return
		}
	}
}
