"""The wrapper and its command: exit codes, output, signals, children."""

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.agents.plan import Launcher, Options, Running, until, wrapper_program
from tests.support.fake_control_plane import ControlPlane

SH = "/bin/sh"


def wrapped(*command: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [str(wrapper_program()), "run", *Options().flags(), *flags, "--", *command]


def shell(script: str, *flags: str) -> list[str]:
    return wrapped(SH, "-c", script, flags=flags)


def children(pid: int) -> list[tuple[int, str]]:
    """Return the children of a process, each with its state (Z: a zombie)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, state, parent = re.match(r"(\d+) \(.*\) (\S) (\d+)", path.read_text()).groups()  # type: ignore[union-attr]
        except OSError:
            continue
        if int(parent) == pid:
            found.append((int(number), state))
    return found


def test_exit_code_0_reports_done(wrapper: Launcher, plane: ControlPlane) -> None:
    assert wrapper.run(shell("echo in the meeting")).exit_code() == 0
    assert plane.statuses == ["JOINING_CALL", "DONE"]


@pytest.mark.parametrize("separate_errors", [False, True], ids=["one file", "two files"])
def test_other_exit_code_reports_failed_with_the_last_lines(
    wrapper: Launcher, plane: ControlPlane, *, separate_errors: bool
) -> None:
    script = "echo out of cookies >&2; seq 1 80; exit 3"
    running = wrapper.run(shell(script), separate_errors=separate_errors)
    assert running.exit_code() == 3
    assert plane.statuses == ["JOINING_CALL", "FAILED"]
    reason = str(plane.failure_reason)
    assert reason.startswith("The command exited with code 3. Last output:\n")
    assert "out of cookies" in reason
    assert "\n79\n80\n" in f"{reason}\n"
    assert len(reason) <= 1000
    lines = reason.splitlines()[1:]
    assert (lines[-1] == "out of cookies") == separate_errors, "one file keeps the order"


def test_much_output_does_not_hide_the_error(wrapper: Launcher, plane: ControlPlane) -> None:
    script = "echo out of cookies >&2; seq 1 100000; exit 3"
    assert wrapper.run(shell(script), separate_errors=True).exit_code() == 3
    reason = str(plane.failure_reason)
    assert reason.endswith("\n99999\n100000\nout of cookies")
    assert len(reason) <= 1000


def test_killed_command_reports_the_signal(wrapper: Launcher, plane: ControlPlane) -> None:
    assert wrapper.run(shell("kill -9 $$")).exit_code() == 128 + signal.SIGKILL
    assert plane.failure_reason == "The command was killed by signal 9 (killed)."


def test_missing_command_reports_failed(wrapper: Launcher, plane: ControlPlane) -> None:
    assert wrapper.run(wrapped("no-such-program")).exit_code() == 127
    assert plane.statuses == ["JOINING_CALL", "FAILED"]
    assert "no-such-program" in str(plane.failure_reason)


def test_exit_code_beats_a_reported_success(wrapper: Launcher, plane: ControlPlane) -> None:
    """A bot that has reported DONE and then fails to upload has not succeeded."""
    running = wrapper.start(["report", "DONE"], ["raise", "no upload"])
    assert running.exit_code() == 1
    assert plane.statuses == ["JOINING_CALL", "FAILED"]


def test_reported_end_waits_for_the_exit_of_the_command(
    wrapper: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    """Botpool stops the container of a bot that has ended, also in the middle of an upload."""
    running = wrapper.start(
        ["report", "DONE"], ["print", "uploading"], ["await file", str(tmp_path / "uploaded")]
    )
    until(lambda: "uploading" in running.output)
    until(lambda: {"phase": "finishing"} in [call.body for call in plane.of("heartbeat")])
    assert "DONE" not in plane.statuses
    (tmp_path / "uploaded").touch()
    assert running.exit_code() == 0
    assert plane.statuses[-1] == "DONE"


def test_output_passes_through_unchanged(
    wrapper: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "content").write_bytes(content)
    script = f"cat {tmp_path}/content; echo an error >&2"
    running = wrapper.run(shell(script), separate_errors=True)
    assert running.exit_code() == 0
    assert running.output_path.read_bytes() == content
    assert running.output_path.with_suffix(".errors").read_text() == "an error\n"


def test_closed_output_does_not_end_the_command(
    wrapper: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    gate = tmp_path / "reader is gone"
    script = f"while [ ! -e {gate} ]; do sleep 0.02; done; seq 1 100000; exit 4"
    wrapper.run([SH, "-c", f"{shlex.join(shell(script))} 2>&1 | touch '{gate}'"])
    until(lambda: "FAILED" in plane.statuses)
    assert "code 4" in str(plane.failure_reason)


def test_command_gets_the_bot_in_its_environment(wrapper: Launcher, plane: ControlPlane) -> None:
    plane.bot_data = {"staySeconds": 5, "name": "Ünal", "flag": True, "list": [1], "bad-name": 1}
    running = wrapper.run(shell("env"), BOT_DATA=None, BOT_PLATFORM="the pool's own")
    assert running.exit_code() == 0
    shown = dict(line.split("=", 1) for line in running.output.splitlines() if "=" in line)
    assert shown["BOT_ID"] == "7"
    assert shown["BOT_MEETING_URL"] == "https://zoom.us/j/1?pwd=x"
    assert shown["BOT_DISPLAY_NAME"] == "Nota"
    assert shown["BOT_CORRELATION_ID"] == "corr-1"
    assert shown["BOT_PLATFORM"] == "the pool's own"
    assert '"staySeconds":5' in shown["BOT_DATA"]
    fields = {name: value for name, value in shown.items() if name.startswith("BOT_DATA_")}
    assert fields == {
        "BOT_DATA_staySeconds": "5",
        "BOT_DATA_name": "Ünal",
        "BOT_DATA_flag": "true",
    }


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT])
def test_signals_are_forwarded(
    wrapper: Launcher, plane: ControlPlane, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo heard {name}; exit 0' {name}; echo ready; while :; do sleep 0.05; done"
    running = wrapper.run(shell(script))
    until(lambda: "ready" in running.output)
    running.process.send_signal(number)
    assert running.exit_code() == 0
    assert f"heard {name}" in running.output


def test_stop_reaches_the_command_once(wrapper: Launcher, plane: ControlPlane) -> None:
    """The process backend signals the whole group; many programs take a second SIGTERM as force."""
    script = "trap 'echo heard' TERM; echo ready; for i in 1 2 3 4 5 6; do sleep 0.1; done"
    running = wrapper.run(["setsid", *shell(script)])
    until(lambda: "ready" in running.output)
    ((pid, _),) = children(running.process.pid)
    # Two signals that arrive together count as one, so their number alone proves nothing.
    assert os.getpgid(pid) != running.process.pid
    os.killpg(running.process.pid, signal.SIGTERM)
    assert running.exit_code() == 0
    assert running.output.count("heard") == 1


def test_command_that_dies_of_sigterm_has_failed(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(wrapped("sleep", "600"))
    until(lambda: children(running.process.pid))
    until(lambda: plane.of("heartbeat"))
    running.terminate()
    assert running.exit_code() == 128 + signal.SIGTERM
    assert plane.statuses == ["JOINING_CALL", "FAILED"]
    assert "signal 15" in str(plane.failure_reason)


def test_sigterm_before_the_identity_ends_the_wrapper(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    plane.down()
    running = wrapper.run(shell("echo joined"))
    until(lambda: "does not answer" in running.output)
    running.terminate()
    assert running.exit_code() == 128 + signal.SIGTERM
    assert "joined" not in running.output


def test_orphans_are_adopted_and_reaped(
    wrapper: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    # Twenty processes whose parent ends at once: they become children of the wrapper.
    orphan = f"(while [ ! -e {gate} ]; do sleep 0.02; done) >/dev/null &"
    script = f"for i in $(seq 20); do sh -c '{orphan}'; done; echo ready; sleep 600"
    running = wrapper.run(shell(script))
    until(lambda: "ready" in running.output)
    until(lambda: len(children(running.process.pid)) == 21)
    gate.touch()
    until(lambda: len(children(running.process.pid)) == 1)
    assert not running.has_ended()


def test_command_does_not_outlive_a_killed_wrapper(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(wrapped("sleep", "600"))
    until(lambda: children(running.process.pid))
    ((pid, _),) = children(running.process.pid)
    running.process.kill()
    running.process.wait()
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_orphan_that_holds_the_output_does_not_delay_the_end_for_long(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    running = wrapper.run(shell("sleep 600 & exit 3"))
    assert running.exit_code() == 3
    assert plane.statuses[-1] == "FAILED"


def test_idle_wrapper_uses_no_processor(wrapper: Launcher, plane: ControlPlane) -> None:
    plane.heartbeat_interval_ms = 3_600_000
    running = wrapper.run(wrapped("sleep", "600"))
    until(lambda: plane.of("heartbeat") and plane.statuses)
    until(lambda: children(running.process.pid))
    running.wait_a_moment(0.5)

    def used() -> tuple[int, int]:
        pid = running.process.pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status"))
        switches = sum(
            map(int, re.findall(r"^voluntary_ctxt_switches:\s(\d+)", status, re.MULTILINE))
        )
        return int(fields[11]) + int(fields[12]), switches

    ticks, switches = used()
    running.wait_a_moment(2)
    later_ticks, later_switches = used()
    assert later_ticks == ticks
    assert later_switches - switches <= 2


def test_wrapper_is_small_and_static() -> None:
    content = wrapper_program().read_bytes()
    assert len(content) <= 8_000_000
    assert b"ld-linux" not in content


def run_alone(wrapper: Launcher, *arguments: str) -> Running:
    return wrapper.run([str(wrapper_program()), *arguments])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run"], "command is missing"),
        (["run", "--leave=email", "--", "true"], "--leave=email: use signal, http:URL or none"),
        (["run", "--leave=http:nowhere", "--", "true"], "http://host"),
        (["run", "--finish=soon", "--", "true"], "finish"),
        (["run", "--finish=-1s", "--", "true"], "--finish"),
        (["walk"], 'unknown command "walk"'),
        ([], "Usage"),
    ],
)
def test_wrong_use_is_explained(
    wrapper: Launcher, plane: ControlPlane, arguments: list[str], text: str
) -> None:
    running = run_alone(wrapper, *arguments)
    assert running.exit_code() == 2
    assert text in running.output
    assert plane.requests == 0


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["run", "--help"]])
def test_help_is_no_error(wrapper: Launcher, arguments: list[str]) -> None:
    running = run_alone(wrapper, *arguments)
    assert running.exit_code() == 0
    assert "botpool-agent run [options] -- command" in running.output


def test_python_needs_no_shell(wrapper: Launcher, plane: ControlPlane) -> None:
    """Arguments reach the command as they are."""
    program = "import sys; print(sys.argv[1:])"
    running = wrapper.run(wrapped(sys.executable, "-c", program, "a b", "--leave=none", "$HOME"))
    assert running.exit_code() == 0
    assert "['a b', '--leave=none', '$HOME']" in running.output
