package main

import (
	"fmt"
	"os/exec"
	"syscall"
)

const prSetChildSubreaper = 36

// command is the running program of the bot.
type command struct {
	pid    int
	output *output
	exited chan syscall.WaitStatus
}

// startCommand starts the program in a process group of its own: a signal to the wrapper's group
// reaches the program once, through the wrapper. The program is killed if the wrapper is killed; the
// caller must have locked its thread, because the kernel ties this to the thread.
func startCommand(arguments, environment []string) (*command, error) {
	path, err := exec.LookPath(arguments[0])
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", arguments[0], err)
	}
	streams, err := newOutput()
	if err != nil {
		return nil, err
	}
	adoptOrphans()
	pid, err := syscall.ForkExec(path, arguments, &syscall.ProcAttr{
		Env:   environment,
		Files: streams.files(),
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	streams.closeWriters()
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", arguments[0], err)
	}
	started := &command{pid: pid, output: streams, exited: make(chan syscall.WaitStatus, 1)}
	go started.reap()
	return started, nil
}

// adoptOrphans makes the wrapper the parent of orphaned processes also where it is not process 1.
func adoptOrphans() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// reap waits for every child: the command and the orphans that the wrapper adopts.
func (c *command) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		if pid == c.pid {
			c.exited <- status
		}
	}
}

// signal sends a signal to the command, which is not yet reaped.
func (c *command) signal(number syscall.Signal) {
	_ = syscall.Kill(c.pid, number)
}

// exitCode follows the convention of shells and Docker.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func describeExit(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("The command was killed by signal %d (%s).", int(status.Signal()), status.Signal())
	}
	return fmt.Sprintf("The command exited with code %d.", status.ExitStatus())
}
