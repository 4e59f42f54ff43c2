package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"
)

const longestKillGrace = 10 * time.Second // between SIGTERM and SIGKILL after the limit of --finish

// supervise passes on signals and requests until the command exits.
func (b *bot) supervise(ctx context.Context) syscall.WaitStatus {
	leave, released := b.leave, b.released
	b.finishTimer, b.killTimer = stoppedTimer(), stoppedTimer()
	silence, fenced := b.fence.timer(), stoppedTimer()
	for {
		select {
		case status := <-b.command.exited:
			return status
		case received := <-b.signals:
			b.forward(received.(syscall.Signal))
		case <-leave:
			leave = nil
			b.passOnLeave(ctx)
		case <-b.callEnded:
			b.startFinishTimer()
		case <-released:
			released = nil
			say("The slot was released; the command must exit.")
			b.terminate()
			b.startFinishTimer()
		case <-b.finishTimer.C:
			say("The command did not end within %s after its call.", b.options.finish)
			b.finishExpired = true
			b.terminate()
			b.killTimer = time.NewTimer(min(b.options.finish, longestKillGrace))
		case <-silence.C:
			if b.fence.left() > 0 {
				silence = b.fence.timer()
				continue
			}
			say("Botpool has not answered for %s: the bot leaves.", b.fence.limit)
			b.leaveOnce.Do(func() { close(b.leave) })
			fenced = time.NewTimer(b.fence.leaveLimit())
		case <-fenced.C:
			if !b.body.isFinishing() {
				say("The command did not leave within %s.", b.fence.leaveLimit())
				b.terminate()
				b.killTimer = time.NewTimer(min(b.fence.leaveLimit(), longestKillGrace))
			}
		case <-b.killTimer.C:
			b.command.signal(syscall.SIGKILL)
		}
	}
}

// passOnLeave tells the command to leave. The request is acknowledged once the command has received it;
// until then Botpool's leave_grace_s applies.
func (b *bot) passOnLeave(ctx context.Context) {
	switch {
	case b.options.leave.signal:
		b.terminated = true
		b.command.signal(syscall.SIGTERM)
		b.callHasEnded()
	case b.options.leave.url != "":
		go b.postLeave(ctx)
	default:
		say("Botpool asks the bot to leave; --leave=none does not pass this on.")
	}
}

func (b *bot) postLeave(ctx context.Context) {
	delays := newBackoff(b.options.backoff)
	client := http.Client{Timeout: b.options.timeout}
	for {
		body := strings.NewReader(fmt.Sprintf(`{"botId":%d}`, b.identity.Bot.ID))
		response, err := client.Post(b.options.leave.url, "application/json", body)
		if err == nil {
			response.Body.Close()
			if response.StatusCode < 300 {
				b.callHasEnded()
				return
			}
			err = errors.New(response.Status)
		}
		say("The leave request to %s failed: %s. Retrying.", b.options.leave.url, err)
		if !sleep(ctx, delays.next()) {
			return
		}
	}
}

// callHasEnded begins the finishing phase.
func (b *bot) callHasEnded() {
	b.body.finishing()
	b.restartFinish()
}

func (b *bot) restartFinish() {
	select {
	case b.callEnded <- struct{}{}:
	default:
	}
}

func (b *bot) startFinishTimer() {
	if b.options.finish > 0 && !b.finishExpired {
		b.finishTimer.Stop()
		b.finishTimer = time.NewTimer(b.options.finish)
	}
}

// forward passes a signal on. A signal that stops the container begins the finishing phase: the command
// may save its recording until the backend's grace ends.
func (b *bot) forward(received syscall.Signal) {
	b.terminated = b.terminated || received == syscall.SIGTERM
	b.command.signal(received)
	if isStop(received) {
		b.stopping = true
		b.callHasEnded()
	}
}

// terminate sends SIGTERM, unless the command has received it.
func (b *bot) terminate() {
	if !b.terminated {
		b.terminated = true
		b.command.signal(syscall.SIGTERM)
	}
}

func stoppedTimer() *time.Timer {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}
