"""The `botpool` command against a real `botpool up`."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.postgres import TestPostgres

BOTPOOL = str(Path(sys.executable).with_name("botpool"))
MEETING = "https://meet.google.com/abc-defg-hij"
ADDRESS = re.compile(r"^(http://\S+)/$", re.MULTILINE)
READY_S = 150.0
RUN_LIMIT_S = 300.0
LONG_S = 3600
"""A bot that stays this long ends only on request."""
SETTINGS = """
[pools.google-meet]
[pools.zoom]
max_size = 1
"""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of this process with only these settings, and 80 columns."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BOTPOOL_", "COOLIFY_")) and name != "DATABASE_URL"
    }
    return kept | {"COLUMNS": "80"} | dict(more or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    out: str
    err: str

    def error_line(self) -> str:
        """The line on standard error; standard output must be empty."""
        assert self.out == ""
        assert self.err.startswith("botpool: ") and self.err.count("\n") == 1, self.err
        return self.err


def run(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    done = subprocess.run(
        [BOTPOOL, *arguments],
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """A running `botpool up`."""

    url: str
    key: str
    data_dir: Path

    def __call__(self, *arguments: str) -> Ran:
        """Run a command with the address and the key of the server."""
        return run(*arguments, env=self.environment())

    def environment(self) -> dict[str, str]:
        return environment({"BOTPOOL_URL": self.url, "BOTPOOL_API_KEY": self.key})

    def call_api(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Call the API."""
        answer = httpx.request(
            method,
            f"{self.url}/v1/{path}",
            json=body,
            headers={"Authorization": f"Bearer {key or self.key}"},
            trust_env=False,
            timeout=60,
        )
        assert answer.is_success, answer.text
        return answer.json()

    def send(self, meeting: str, **data: object) -> int:
        body = {"meetingUrl": meeting, "botData": data}
        bot_id: int = self.call_api("POST", "bots", body)["bot"]["id"]
        return bot_id


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    root = tmp_path_factory.mktemp("up")
    (root / "botpool.toml").write_text(SETTINGS)
    with (root / "out").open("wb") as out, (root / "err").open("wb") as err:
        server = subprocess.Popen(
            [BOTPOOL, "up", "--port", "0", "--data-dir", str(root / "data")],
            env=environment(),
            cwd=root,
            stdout=out,
            stderr=err,
        )
    try:
        deadline = time.monotonic() + READY_S
        while not (ready := ADDRESS.search((root / "out").read_text())):
            assert server.poll() is None, (root / "err").read_text()
            assert time.monotonic() < deadline, "not ready in time"
            time.sleep(0.05)
        key = (root / "data" / "key").read_text().strip()
        yield Up(url=ready[1], key=key, data_dir=root / "data")
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(READY_S) == 0


def test_key_is_printed_only_on_a_terminal(up: Up) -> None:
    printed = (up.data_dir.parent / "out").read_text()
    assert up.key not in printed
    assert f"with the key in {up.data_dir / 'key'}:" in printed
    assert f"$(cat {up.data_dir / 'key'})" in printed


def test_commands_find_the_server_by_its_data_directory(up: Up) -> None:
    """It listens on another port than the settings say."""
    command = [BOTPOOL, "pool", "list", "--data-dir", str(up.data_dir)]
    found = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert "google-meet" in found.stdout


def test_create_wait_ends_when_the_bot_is_done(up: Up) -> None:
    data = '{"joinSeconds": 0, "staySeconds": 0}'
    done = up("bot", "create", MEETING, "--name", "Scribe", "--data", data, "--wait")
    assert (done.code, re.fullmatch(r"Bot \d+ DONE\n", done.out) is not None) == (0, True)

    bot_id = done.out.split()[1]
    assert "in call\nleaving\ndone\n" in up("bot", "logs", bot_id).out
    assert "IN_CALL → CALL_ENDED" in up("bot", "events", bot_id).out


def test_create_wait_shows_the_status_of_the_bot(up: Up) -> None:
    data = json.dumps({"joinSeconds": 0, "staySeconds": LONG_S})
    with subprocess.Popen(
        [BOTPOOL, "bot", "create", MEETING, "--data", data, "--wait"],
        env=up.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stderr is not None
        line = next(line for line in command.stderr if "IN_CALL in pool-google-meet-" in line)
        bot_id = line.split()[1]
        up.call_api("DELETE", f"bots/{bot_id}")
        out, _ = command.communicate(timeout=RUN_LIMIT_S)
    assert (command.returncode, out) == (0, f"Bot {bot_id} DONE\n")


def test_create_wait_exits_1_when_the_bot_fails(up: Up) -> None:
    failed = up("bot", "create", MEETING, "--data", '{"joinSeconds": 0, "crash": true}', "--wait")
    assert failed.code == 1
    assert "FAILED container_exited: " in failed.out


def test_lists_are_the_json_of_the_api_or_tables_of_80_columns(up: Up) -> None:
    up.send(MEETING, staySeconds=LONG_S)
    listed = up("bot", "list", "--platform", "google-meet", "--status", "done", "--json")
    assert (listed.code, listed.err) == (0, "")
    assert json.loads(listed.out) == up.call_api("GET", "bots?platform=google-meet&status=DONE")
    assert json.loads(up("pool", "show", "zoom", "--json").out) == up.call_api("GET", "pools/zoom")
    for what in ("bot", "slot"):
        table = up(what, "list")
        assert table.code == 0
        assert "google-meet" in table.out
        assert max(map(len, table.out.splitlines())) <= 80
        assert "\x1b" not in table.out


def test_queued_bot_is_listed_and_cancelled(up: Up) -> None:
    running = up.send("https://zoom.us/j/1", staySeconds=LONG_S)
    created = up("bot", "create", "https://zoom.us/j/2", "--priority", "5")
    assert "QUEUED, number 1 in the queue" in created.out
    waiting = created.out.split()[1]
    refused = up("bot", "create", "https://zoom.us/j/3", "--queue-timeout-ms", "0")
    assert (refused.code, "Try again in" in refused.error_line()) == (1, True)

    assert up("queue").out.splitlines()[1].split()[:4] == ["1", waiting, "zoom", "5"]
    assert up("bot", "stop", waiting).out == f"Bot {waiting} CANCELLED\n"
    assert up.call_api("GET", "queue")["queue"] == []
    up.call_api("DELETE", f"bots/{running}")


def test_cordon_and_drain_take_effect(up: Up) -> None:
    up.send(MEETING, staySeconds=0)
    (slot, *_) = up.call_api("GET", "slots?platform=google-meet")["slots"]
    assert up("slot", "cordon", slot["name"]).code == 0
    assert up.call_api("GET", f"slots/{slot['id']}")["slot"]["cordoned"]
    assert up("pool", "drain", "google-meet").code == 0
    drained = up("bot", "create", MEETING)
    assert (drained.code, "drained by an operator" in drained.error_line()) == (1, True)
    assert up("pool", "undrain", "google-meet").code == 0
    up.send(MEETING, staySeconds=0)


def test_same_idempotency_key_creates_one_bot(up: Up) -> None:
    request = ("bot", "create", MEETING, "--idempotency-key", "monday", "--json")
    first, again = up(*request), up(*request)
    assert json.loads(first.out)["bot"]["id"] == json.loads(again.out)["bot"]["id"]


def test_keys_are_created_and_revoked_while_the_server_runs(up: Up) -> None:
    beside = ("--data-dir", str(up.data_dir))
    created = up("key", "create", "--name", "ci", "--scope", "user", *beside)
    key = created.out.removesuffix("\n")
    assert (created.code, re.fullmatch(r"bpk_\S+", key) is not None) == (0, True)
    assert up.call_api("GET", "queue", key=key) == {"queue": [], "nextCursor": None}

    listed = up("key", "list", "--json", *beside)
    assert json.loads(listed.out) == up.call_api("GET", "keys")
    assert key not in listed.out
    key_id = json.loads(listed.out)["keys"][-1]["id"]
    assert up("key", "revoke", str(key_id), *beside).code == 0
    assert up.call_api("GET", "keys")["keys"][-1]["revokedAt"] is not None


def test_key_of_up_is_read_from_its_data_directory(up: Up) -> None:
    assert run("queue", "--url", up.url, "--data-dir", str(up.data_dir)).code == 0
    wrong = run("bot", "list", "--url", up.url, "--key", "bpk_wrong")
    assert (wrong.code, "does not accept the key from --key" in wrong.error_line()) == (1, True)


def test_refusal_of_the_server_is_the_error_line(up: Up) -> None:
    unknown = up("bot", "create", MEETING, "--platform", "skype")
    assert (unknown.code, "Pools here: google-meet, zoom" in unknown.error_line()) == (2, True)
    missing = up("bot", "show", "999999")
    assert (missing.code, missing.error_line()) == (1, "botpool: There is no bot 999999.\n")
    bad = up("bot", "create", MEETING, "--data", "{oops")
    assert (bad.code, "--data: is not JSON" in bad.error_line()) == (2, True)


def test_error_without_a_server_says_how_to_start_one() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    down = run("bot", "list", "--url", url, "--key", "bpk_any")
    assert down.code == 1
    assert f"Botpool at {url} does not answer: connection refused" in down.error_line()
    assert "'botpool up'" in down.err


def test_first_key_of_a_database_by_url_needs_a_schema_and_no_server(
    postgres: TestPostgres,
) -> None:
    settings = {
        "DATABASE_URL": postgres.create_database(),
        "BOTPOOL_INSTALLATION__ID": "test",
        "BOTPOOL_INSTALLATION__SECRET": "9c41e07d2ab85f36c1e0d4972f6ba853",
        "BOTPOOL_BACKENDS__PROCESS__ALLOW_SHARED_USER": "true",
    }
    early = run("key", "create", "--name", "first", env=settings)
    assert (early.code, "Run 'botpool migrate' first." in early.error_line()) == (1, True)
    assert run("migrate", env=settings).code == 0
    created = run("key", "create", "--name", "first", "--scope", "admin", env=settings)
    assert (created.code, created.out.startswith("bpk_")) == (0, True)


def run_demo(*options: str) -> Ran:
    # A short path: PostgreSQL puts its socket elsewhere if the path is long.
    with tempfile.TemporaryDirectory(prefix="bp-", dir="/tmp") as directory:
        ran = run("demo", *options, env={"TMPDIR": directory, "DATABASE_URL": "not for the demo"})
        assert ran.code == 0, ran.out + ran.err
        assert ran.err == ""
        assert list(Path(directory).iterdir()) == [], "the demo removes its directory"
    assert "All as expected" in ran.out
    assert re.search(r"DONE +10 bots", ran.out)
    assert re.search(r"FAILED +bot 3 Crash, container_exited: ", ran.out)
    return ran


@pytest.mark.timeout(RUN_LIMIT_S)
def test_demo_succeeds_and_leaves_nothing() -> None:
    first_start = re.search(r"First start in a slot +(\d+\.\d) s", run_demo().out)
    assert first_start is not None and float(first_start[1]) >= 3.0


@pytest.mark.timeout(RUN_LIMIT_S)
def test_demo_on_coolify_pulls_once_and_keeps_its_request_budget() -> None:
    ran = run_demo("--coolify")
    assert re.search(r"Image pulls +1, for 4 first starts", ran.out)
    requests = re.search(r"Coolify requests +at most (\d+) per emulated minute", ran.out)
    assert requests is not None and 0 < int(requests[1]) <= 200
    seven_minutes = re.search(r"First start in a slot +(\d+\.\d) s to running", ran.out)
    assert seven_minutes is not None and float(seven_minutes[1]) >= 7.0


@pytest.mark.timeout(RUN_LIMIT_S)
@pytest.mark.parametrize("options", [(), ("--coolify",)], ids=["processes", "coolify"])
def test_demo_runs_on_postgresql_15_by_url(
    debian_postgres: TestPostgres, options: tuple[str, ...]
) -> None:
    url = debian_postgres.create_database()
    try:
        run_demo(*options, "--database", url)
        again = run("demo", *options, "--database", url)
        assert (again.code, "needs an empty database" in again.error_line()) == (2, True)
    finally:
        debian_postgres.drop_database(url)
