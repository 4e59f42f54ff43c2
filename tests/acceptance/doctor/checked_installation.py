"""An installation for `botpool doctor` to check: a database with bots, and containers."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from botpool.backends.process import ProcessBackend
from botpool.backends.protocol import ContainerSpec
from botpool.cli import main
from tests.support.clock import Clock
from tests.support.fences import NO_ASSIGNMENT
from tests.support.http_server import LINK
from tests.support.replicas import TEAMS, Stage, bot_request, pool

PASSWORD, SECRET, INSTALLATION = "hunter2", "9c41e07d2ab85f36c1e0d4972f6ba853", "doctors"
TIMEOUT_S = 120.0
Captured = pytest.CaptureFixture[str]
CONFIG = """
[pools.google-meet]
max_size = 3
[pools.teams]
max_size = 0
[queue]
poll_interval_ms = 10
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The exit code and the findings of one run, by check."""

    code: int
    findings: dict[str, dict[str, str]] = field(default_factory=dict)

    def checks(self, result: str) -> set[str]:
        return {name for name, finding in self.findings.items() if finding["result"] == result}


@dataclass(slots=True, kw_only=True)
class CheckedInstallation:
    """A database with bots, the folder of its containers, and the settings of its replicas."""

    url: str
    directory: Path
    captured: Captured

    def corrupt(self, *statements: str) -> None:
        """Change rows by hand, without the triggers that would refuse the change."""
        with psycopg.connect(self.url) as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                assert connection.execute(statement).rowcount != 0, statement

    def run_doctor(self) -> Report:
        """Run `botpool doctor --json` and check that it shows no secrets."""
        code = main(["doctor", "--json", f"--data-dir={self.directory}"])
        out, err = self.captured.readouterr()
        assert err == ""
        assert not any(secret in out for secret in (PASSWORD, SECRET, LINK))
        answer = json.loads(out)
        assert answer["ok"] == (code == 0)
        return Report(code=code, findings={each["check"]: each for each in answer["findings"]})


# Ids of the bots: one runs, one is done and its slot is idle, one is queued.
RUNNING, DONE, QUEUED = 1, 2, 3
BUSY_SLOT = f"assigned_bot_id = {RUNNING}"
IDLE_SLOT = "status = 'idle'"


async def fill_installation(url: str, directory: Path) -> None:
    """Create the bots, and the containers of their slots."""
    async with Stage.set(url, Clock(url)) as stage:
        replica = await stage.replica(pool(3), pool(0, TEAMS))
        first = await replica.admission.admit(bot_request())
        second = await replica.admission.admit(bot_request())
        await stage.settle(replica)
        await stage.end(replica, second.bot.id)
        await stage.settle(replica)
        waiting = await replica.admission.admit(bot_request(TEAMS, queue_timeout_ms=600_000))
        ids = [each.bot.id for each in (first, second, waiting)]
        assert ids == [RUNNING, DONE, QUEUED]
        assert stage.statuses(*ids) == ["JOINING_CALL", "DONE", "QUEUED"]
        containers = ProcessBackend(directory / "containers", INSTALLATION, ())
        await containers.open()
        for slot in stage.slots():
            made = await containers.ensure(
                spec(slot["slot_name"]), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
            )
            stage.rows(
                "UPDATE bot_pool_slots SET container_id = %s, version = version + 1 WHERE id = %s",
                made,
                slot["id"],
            )
        await containers.close()


def spec(name: str) -> ContainerSpec:
    return ContainerSpec(name=name, pool_name="google-meet", image="demo")
