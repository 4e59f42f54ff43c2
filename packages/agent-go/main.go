// Command botpool-agent runs any program as a Botpool bot.
//
//	botpool-agent run [--leave=signal|http:URL|none] [--finish=15m] -- command…
//
// It speaks Botpool's agent API for the program: identity, heartbeats, leave requests and the end. It
// needs the standard library only and is one static binary, so that any image can include it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"
)

// version is set by `make agent`.
var version = "development"

const usage = `Run a command as a Botpool bot.

Usage: botpool-agent run [options] -- command [argument…]
       botpool-agent version

Options:
  --leave=signal     how the command receives a leave request: "signal" sends SIGTERM,
                     "http:URL" sends a POST to URL, "none" does not pass it on
  --finish=15m       time for the command to end after its call (0: no limit); changed
                     progress starts it again
  --timeout=10s      time for Botpool to answer one call
  --backoff=30s      longest delay between retries while Botpool is unreachable

The command gets the bot in BOT_DATA (JSON) and in BOT_ID, BOT_MEETING_URL, BOT_DISPLAY_NAME,
BOT_PLATFORM, BOT_CORRELATION_ID and BOT_DATA_<field>. It may report with a POST of
{"status": "IN_CALL"} to $BOTPOOL_STATUS_URL. Exit code 0 reports DONE, others FAILED with the
last lines of output.
`

const (
	exitFailure = 1
	exitUsage   = 2
)

type options struct {
	leave   leaveMode
	finish  time.Duration
	timeout time.Duration
	backoff time.Duration
	command []string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout))
}

func run(arguments []string, out io.Writer) int {
	if len(arguments) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	switch arguments[0] {
	case "run":
	case "version", "--version":
		fmt.Fprintln(out, "botpool-agent", version)
		return 0
	case "help", "--help", "-h":
		fmt.Fprint(out, usage)
		return 0
	default:
		say("unknown command %q. Use: botpool-agent run [options] -- command…", arguments[0])
		return exitUsage
	}
	chosen, err := parseOptions(arguments[1:])
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return 0
	}
	if err != nil {
		say("%s. See: botpool-agent help", err)
		return exitUsage
	}
	settings, err := readEnvironment(os.Getenv)
	if err != nil {
		say("%s", err)
		return exitFailure
	}
	return runBot(chosen, settings)
}

func parseOptions(arguments []string) (options, error) {
	var chosen options
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	leave := flags.String("leave", "signal", "")
	flags.DurationVar(&chosen.finish, "finish", 15*time.Minute, "")
	flags.DurationVar(&chosen.timeout, "timeout", 10*time.Second, "")
	flags.DurationVar(&chosen.backoff, "backoff", 30*time.Second, "")
	if err := flags.Parse(arguments); err != nil {
		return chosen, err
	}
	chosen.command = flags.Args()
	if len(chosen.command) == 0 {
		return chosen, errors.New("the command is missing: botpool-agent run [options] -- command…")
	}
	if chosen.finish < 0 || chosen.timeout <= 0 || chosen.backoff <= 0 {
		return chosen, errors.New("--finish must be at least 0, --timeout and --backoff more than 0")
	}
	var err error
	chosen.leave, err = parseLeave(*leave)
	return chosen, err
}

// leaveMode is the way in which the command receives a leave request.
type leaveMode struct {
	signal bool
	url    string
}

func parseLeave(text string) (leaveMode, error) {
	switch {
	case text == "signal":
		return leaveMode{signal: true}, nil
	case text == "none":
		return leaveMode{}, nil
	case strings.HasPrefix(text, "http:"), strings.HasPrefix(text, "https:"):
		return parseLeaveURL(text)
	}
	return leaveMode{}, fmt.Errorf("--leave=%s: use signal, http:URL or none", text)
}

// parseLeaveURL takes "http:http://127.0.0.1:3000/leave" and, for convenience, the address alone.
func parseLeaveURL(text string) (leaveMode, error) {
	address := text
	if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
		address = strings.TrimPrefix(text, "http:")
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return leaveMode{}, fmt.Errorf("--leave=%s: the address must be http://host[:port]/path", text)
	}
	return leaveMode{url: address}, nil
}

// say writes a line to the container's output.
func say(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "botpool-agent: "+format+"\n", values...)
}
