"""The wrapper: leave requests, the limit of finishing, and the command's reports on loopback."""

import json
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from tests.agents.plan import Launcher, Running, until
from tests.agents.test_wrapper_command import shell
from tests.support.fake_control_plane import ControlPlane

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


@contextmanager
def leave_address(*statuses: int) -> Iterator[tuple[str, list[object]]]:
    """Serve the address for leave requests; yields it and the bodies that it has received."""
    received: list[object] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(json.loads(body))
            self.send_response(statuses[min(len(received), len(statuses)) - 1])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/leave", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def phases(plane: ControlPlane) -> set[object]:
    return {(call.body or {}).get("phase") for call in plane.of("heartbeat")}


def test_leave_by_signal_is_acknowledged(wrapper: Launcher, plane: ControlPlane) -> None:
    script = "trap 'echo left; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    running = wrapper.run(shell(script))
    until(lambda: "ready" in running.output)
    plane.should_leave = True
    assert running.exit_code() == 0
    assert "left" in running.output
    assert plane.statuses == ["JOINING_CALL", "DONE"]


def test_leave_request_starts_the_finishing_phase(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(shell(STUBBORN))
    until(lambda: "ready" in running.output)
    assert phases(plane) <= {None}
    plane.should_leave = True
    until(lambda: "finishing" in phases(plane))
    assert not running.has_ended()


def test_leave_by_http_is_repeated_until_accepted(
    wrapper: Launcher, plane: ControlPlane, tmp_path: Path
) -> None:
    script = f"while [ ! -e {tmp_path}/left ]; do sleep 0.05; done"
    with leave_address(503, 500, 200) as (url, received):
        running = wrapper.run(shell(script, f"--leave=http:{url}"))
        until(lambda: plane.of("heartbeat"))
        assert received == []
        plane.should_leave = True
        until(lambda: "finishing" in phases(plane))
        assert received == [{"botId": 7}] * 3
        beats = len(plane.of("heartbeat"))
        until(lambda: len(plane.of("heartbeat")) > beats + 3)
    assert len(received) == 3, "one request, although every answer repeats it"
    (tmp_path / "left").touch()
    assert running.exit_code() == 0


def test_leave_that_is_not_passed_on_is_not_acknowledged(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    """Botpool then stops the container after `leave_grace_s`."""
    running = wrapper.run(shell("trap 'exit 9' TERM; while :; do sleep 0.05; done", "--leave=none"))
    plane.should_leave = True
    until(lambda: "--leave=none" in running.output)
    beats = len(plane.of("heartbeat"))
    until(lambda: len(plane.of("heartbeat")) > beats + 3)
    assert not running.has_ended()
    assert phases(plane) == {None}


def test_command_that_does_not_finish_is_killed_and_has_failed(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    running = wrapper.run(shell(STUBBORN, "--finish=200ms"))
    until(lambda: "ready" in running.output)
    plane.should_leave = True
    assert running.exit_code() == 128 + signal.SIGKILL
    assert plane.statuses == ["JOINING_CALL", "FAILED"]
    expected = "The command did not end within 200ms after its call. Last output:\n"
    assert str(plane.failure_reason).startswith(expected)


def test_finishing_has_no_limit_before_the_call_has_ended(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    running = wrapper.run(shell(STUBBORN, "--finish=1ms"))
    until(lambda: len(plane.of("heartbeat")) > 5)
    assert not running.has_ended()


def test_call_end_starts_the_limit(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(shell("echo $BOTPOOL_STATUS_URL; sleep 600", "--finish=1ms"))
    post(running, {"status": "CALL_ENDED"})
    assert running.exit_code() == 128 + signal.SIGTERM
    assert plane.statuses == ["JOINING_CALL", "CALL_ENDED", "FAILED"]


def test_released_command_gets_sigterm_and_reports_nothing(
    wrapper: Launcher, plane: ControlPlane
) -> None:
    running = wrapper.run(shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done"))
    until(lambda: "ready" in running.output and plane.statuses)
    plane.should_exit = True
    assert running.exit_code() == 5
    assert plane.statuses == ["JOINING_CALL"]


def status_url(running: Running) -> str:
    until(lambda: "token=" in running.output)
    return next(line for line in running.output.splitlines() if "token=" in line)


def post(running: Running, body: object, url: str | None = None, method: str = "POST") -> int:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url or status_url(running), data, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            detail = json.load(error)["detail"]
            assert isinstance(detail, str)
            assert detail
        return error.code


BAD_REPORTS: list[object] = [
    b"",
    b"IN_CALL",
    b"[]",
    b"\xff",
    {"status": "ASLEEP"},
    {"status": "in_call"},
    {"state": "IN_CALL"},
    {"status": "IN_CALL", "failureReason": "x"},
    {"status": "IN_CALL", "endReason": "alone"},
    {"failureReason": "x"},
    {"phase": "starting"},
    {"progress": [1]},
    {"progress": {"x": "y" * 5000}},
]


def test_bad_reports_are_refused_and_change_nothing(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(shell("echo $BOTPOOL_STATUS_URL; sleep 600"))
    for body in BAD_REPORTS:
        assert post(running, body) == 422, body
    assert post(running, {"status": "IN_CALL", "progress": {"n": 1}}) == 200
    until(lambda: plane.statuses == ["JOINING_CALL", "IN_CALL"])
    until(lambda: plane.of("heartbeat")[-1].body == {"progress": {"n": 1}})


def test_status_address_needs_its_token(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(shell("echo $BOTPOOL_STATUS_URL; sleep 600"))
    url = status_url(running)
    assert url.startswith("http://127.0.0.1:")
    bare, token = url.split("?token=")
    assert len(token) == 32
    for other in (bare, f"{bare}?token=", f"{bare}?token={'0' * 32}"):
        assert post(running, {"status": "IN_CALL"}, other) == 403
    assert post(running, {"status": "IN_CALL"}, method="PUT") == 405
    assert post(running, b"x" * 100_000) == 413
    assert plane.statuses == ["JOINING_CALL"]


def test_last_media_reaches_the_heartbeat(wrapper: Launcher, plane: ControlPlane) -> None:
    running = wrapper.run(shell("echo $BOTPOOL_STATUS_URL; sleep 600"))
    at = "2026-11-18T01:00:00Z"
    assert post(running, {"lastMediaAt": at}) == 200
    until(lambda: {"lastMediaAt": at} in [call.body for call in plane.of("heartbeat")])
