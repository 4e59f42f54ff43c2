"""Tests of the command `botpool emulate coolify`."""

import json
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from botpool.settings import load_settings
from tests.backends.emulator.coolify_client import HEADERS, LOCATION

COMMAND = [sys.executable, "-m", "botpool.cli", "emulate", "coolify"]


@contextmanager
def emulator(*options: str) -> Iterator[tuple[str, str, "subprocess.Popen[str]"]]:
    """Yield the URL, the output and the process."""
    with subprocess.Popen(
        [*COMMAND, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output = ""
            assert process.stdout is not None
            while "Ctrl-C" not in output:
                line = process.stdout.readline()
                assert line, process.communicate()[1]
                output += line
            found = re.search(r"answers at (http://\S+)", output)
            assert found is not None
            yield found[1], output, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)
    assert process.returncode == 0


def test_command_serves_the_documented_control_api_and_settings(tmp_path: Path) -> None:
    sleeping = f"{sys.executable} -c 'import time; time.sleep(600)'"
    with (
        emulator("--time-scale", "2000", "--seed", "3", "--command", sleeping) as (url, output, _),
        httpx.Client(base_url=url) as client,
    ):
        state = client.get("/_emulator/state").json()
        assert state["pulls"] == {} and state["applications"] == []
        assert state["runningContainers"] == 0 and set(state["requestsByMinute"]) <= {0}
        assert client.get("/api/v1/applications").status_code == 401
        created = client.post(
            "/api/v1/applications/dockerimage",
            headers=HEADERS,
            json={**LOCATION, "docker_registry_image_name": "team/bot", "name": "bot"},
        )
        uuid = created.json()["uuid"]
        client.post(f"/api/v1/applications/{uuid}/start", headers=HEADERS)
        deadline = time.monotonic() + 30
        while not client.get("/_emulator/state").json()["runningContainers"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        state = client.get("/_emulator/state").json()
        assert state["pulls"] == {"team/bot:latest": 1}
        (application,) = state["applications"]
        assert (application["uuid"], application["name"], application["running"]) == (
            uuid,
            "bot",
            True,
        )
        assert isinstance(application["status"], str)
        assert client.post("/_emulator/faults", json={"apiDisabled": True}).status_code == 200
        assert client.get("/api/v1/version", headers=HEADERS).status_code == 403
        theirs = client.post("/_emulator/applications", json={"name": "theirs"})
        assert theirs.status_code == 201

        text = output[output.index("[server]") : output.index("Show the emulator")]
        settings = tmp_path / "botpool.toml"
        settings.write_text(text)
        loaded = load_settings(settings, {})
        assert [pool.backend for pool in loaded.pools.values()] == ["coolify"]
        assert str(loaded.backends.coolify.url).rstrip("/") == url
        assert tomllib.loads(text)["backends"]["coolify"]["token"] == "1|emulated"
        assert loaded.backends.coolify.requests_per_minute == 400_000
        assert loaded.deploy.poll_interval_s == 0.5


def test_second_signal_does_not_leave_containers_running() -> None:
    ignores_sigterm = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    )
    command = f"{sys.executable} -c '{ignores_sigterm}'"
    with (
        emulator("--time-scale", "2000", "--command", command) as (url, _, process),
        httpx.Client(base_url=f"{url}/api/v1", headers=HEADERS) as client,
    ):
        body = {**LOCATION, "docker_registry_image_name": "team/bot", "instant_deploy": True}
        client.post("/applications/dockerimage", json=body)
        deadline = time.monotonic() + 30
        while not (children := psutil.Process(process.pid).children()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        time.sleep(1)
    assert not any(child.is_running() for child in children)


def test_no_processes_and_token_options() -> None:
    options = ("--no-processes", "--token", "7|other", "--time-scale", "2000")
    with emulator(*options) as (url, output, _), httpx.Client(base_url=f"{url}/api/v1") as client:
        assert "7|other" in output
        headers = {**HEADERS, "Authorization": "Bearer 7|other"}
        assert client.get("/version", headers=headers).status_code == 200
        assert client.get("/version", headers=HEADERS).status_code == 401


def test_concurrent_deployments_need_builds_and_workers() -> None:
    in_progress, at_once = [], []
    for options in (
        (),
        ("--concurrent-builds", "6"),
        ("--concurrent-builds", "6", "--workers", "6"),
    ):
        with (
            emulator("--no-processes", *options) as (url, _, _),
            httpx.Client(base_url=url, headers=HEADERS) as client,
        ):
            for _ in range(6):
                body = {**LOCATION, "docker_registry_image_name": "a/b", "instant_deploy": True}
                assert client.post("/api/v1/applications/dockerimage", json=body).is_success
            client.post("/_emulator/time", json={"advance": 60})
            deployments = client.get("/_emulator/state").json()["openDeployments"]
            in_progress.append([each["status"] for each in deployments].count("in_progress"))
            client.post("/_emulator/time", json={"advance": 370})
            at_once.append(client.get("/_emulator/state").json()["runningContainers"])
    assert in_progress == [2, 6, 6], "Coolify does not count its workers"
    assert at_once == [2, 4, 6]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--time-scale", "0"], "--time-scale"),
        (["--time-scale", "nan"], "--time-scale"),
        (["--concurrent-builds", "0"], "concurrent-builds"),
        (["--command", "/nowhere/program"], "--command"),
        (["--command", "'"], "--command"),
        (["--token", " "], "--token"),
        (["--port", "70000"], "port"),
    ],
)
def test_invalid_option_prints_one_line(options: list[str], expected: str) -> None:
    ended = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert expected in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_port_in_use_prints_one_line() -> None:
    with emulator("--no-processes") as (url, _, _):
        port = url.rpartition(":")[2]
        ended = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, text=True, timeout=30
        )
    assert ended.returncode == 2
    assert "in use" in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_help_does_not_load_the_emulator() -> None:
    program = (
        "import sys, json; from botpool.cli import main; main(['emulate', 'coolify', '--help']);"
        "print(json.dumps([n for n in sys.modules if 'emulators' in n or n == 'uvicorn']),"
        " file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert json.loads(ended.stderr) == []
    assert "--time-scale" in ended.stdout
