"""`botpool doctor`: a healthy system is told so; each thing broken by hand is found and named."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from http_server import BOTPOOL, LINK, free_port, unchanged

from botpool.backends.process import ProcessBackend
from botpool.backends.protocol import ContainerSpec
from botpool.cli import main
from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.doctor import CATALOGUE
from botpool.engine.doctor.rules import RULES
from botpool.store.examiner import Examiner
from botpool.store.migrations import migrate
from botpool.store.statements import statement

from clock import Clock
from postgres import TestPostgres
from replicas import TEAMS, Stage, pool, wish

PASSWORD, SECRET, INSTALLATION = "hunter2", "a secret of these tests", "doctors"
PATIENCE_S = 60.0
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
    code: int
    findings: dict[str, dict[str, str]] = field(default_factory=dict)

    def checks(self, result: str) -> set[str]:
        return {name for name, finding in self.findings.items() if finding["result"] == result}


@dataclass(slots=True, kw_only=True)
class Patient:
    """A database with bots, the folder of its containers, and the settings of its replicas."""

    url: str
    directory: Path
    captured: Captured

    def break_(self, *statements: str) -> None:
        """By hand, with the triggers off that would refuse it."""
        with psycopg.connect(self.url) as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                assert connection.execute(statement).rowcount != 0, statement

    def examine(self) -> Report:
        code = main(["doctor", "--json", f"--data-dir={self.directory}"])
        out, err = self.captured.readouterr()
        assert err == ""
        assert not any(secret in out for secret in (PASSWORD, SECRET, LINK))
        answer = json.loads(out)
        assert answer["ok"] == (code == 0)
        return Report(code=code, findings={each["check"]: each for each in answer["findings"]})


# In the order of their making: one bot runs, one is done and left its slot idle, one waits.
RUNNING, DONE, WAITING = 1, 2, 3
BUSY_SLOT = f"assigned_bot_id = {RUNNING}"
IDLE_SLOT = "status = 'idle'"


@pytest.fixture(scope="module")
def scene(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A database to copy, in the middle of its work, and the containers of its slots."""
    url = postgres.create_database(template)
    directory = tmp_path_factory.mktemp("doctor")
    asyncio.run(_set_scene(url, directory))
    yield url, directory
    postgres.drop_database(url)


async def _set_scene(url: str, directory: Path) -> None:
    async with Stage.set(url, Clock(url)) as stage:
        replica = await stage.replica(pool(3), pool(0, TEAMS))
        first = await replica.admission.admit(wish())
        second = await replica.admission.admit(wish())
        await stage.settle(replica)
        await stage.end(replica, second.bot.id)
        await stage.settle(replica)
        waiting = await replica.admission.admit(wish(TEAMS, queue_timeout_ms=600_000))
        ids = [each.bot.id for each in (first, second, waiting)]
        assert ids == [RUNNING, DONE, WAITING]
        assert stage.statuses(*ids) == ["JOINING_CALL", "DONE", "QUEUED"]
        containers = ProcessBackend(directory / "containers", INSTALLATION, ())
        await containers.open()
        for slot in stage.slots():
            made = await containers.ensure(spec(slot["slot_name"]), timeout_s=PATIENCE_S)
            stage.rows(
                "UPDATE bot_pool_slots SET container_id = %s, version = version + 1 WHERE id = %s",
                made,
                slot["id"],
            )
        await containers.close()


def spec(name: str) -> ContainerSpec:
    return ContainerSpec(name=name, platform="google-meet", image="demo")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The settings of a replica, as the environment and a file give them."""
    for name in list(os.environ):
        if name.startswith("BOTPOOL_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    config = tmp_path / "botpool.toml"
    config.write_text(CONFIG)
    monkeypatch.setenv("BOTPOOL_CONFIG", str(config))
    monkeypatch.setenv("BOTPOOL_INSTALLATION__ID", INSTALLATION)
    monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRET", SECRET)
    return monkeypatch


@pytest.fixture
def patient(
    postgres: TestPostgres,
    scene: tuple[str, Path],
    settings: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: Captured,
) -> Iterator[Patient]:
    url, made = postgres.create_database(scene[0]), tmp_path / "data"
    shutil.copytree(scene[1], made)
    settings.setenv("DATABASE_URL", url)
    yield Patient(url=url, directory=made, captured=capsys)
    postgres.drop_database(url)


# All is well.


def test_a_healthy_system_beside_a_running_up(
    settings: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    data_dir = tmp_path / "own"
    with _up(data_dir) as process:
        before = sorted(path.name for path in data_dir.iterdir())
        assert main(["doctor", f"--data-dir={data_dir}"]) == 0
        shown, said = capsys.readouterr()
        assert main(["doctor", "--json", f"--data-dir={data_dir}"]) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert process.poll() is None, "it was not disturbed"
        assert sorted(path.name for path in data_dir.iterdir()) == before
    assert {each["result"] for each in findings} == {"ok"}
    assert {each["check"] for each in findings} == {check.name for check in CATALOGUE}
    assert shown.splitlines()[-1] == f"{len(CATALOGUE)} checks: all is well."
    assert said == ""


def test_it_changes_nothing_and_a_healthy_database_has_no_fault(patient: Patient) -> None:
    with unchanged(patient.url):
        report = patient.examine()
    assert report.code == 0
    assert report.checks("warning") == {"durability", "replicas"}, "fsync is off, nobody serves"
    assert set(report.findings) == {check.name for check in CATALOGUE}
    assert "off: fsync" in report.findings["durability"]["found"]


def test_on_an_older_postgresql(
    debian_postgres: TestPostgres, patient: Patient, settings: pytest.MonkeyPatch
) -> None:
    url = debian_postgres.create_database()
    migrate(url)
    settings.setenv("DATABASE_URL", url)
    report = patient.examine()
    told = [each["found"] for each in report.findings.values()]
    assert not [words for words in told if "could not be examined" in words]
    assert report.checks("wrong") == {"leftover_containers"}, "they belong to another database"


async def test_its_connection_cannot_write(database_url: str) -> None:
    async with Examiner.connected(database_url) as examiner:
        with pytest.raises(DatabaseUnavailable, match="read-only transaction"):
            await examiner.fetch("register_backends", {"backends": ["process"]})


# What must always hold, broken by hand: the statements, and words of what is found.

BROKEN: dict[str, tuple[Sequence[str], str]] = {
    "one_slot_per_bot": (
        (
            "ALTER TABLE bot_pool_slots DROP CONSTRAINT bot_pool_slots_assigned_bot_id_key",
            (
                f"UPDATE bot_pool_slots SET status = 'busy', assigned_bot_id = {RUNNING}, "
                f"assignment_id = 999 WHERE {IDLE_SLOT}"
            ),
        ),
        f"bot {RUNNING}, slots 2",
    ),
    "bots_follow_status": (
        (
            "ALTER TABLE bot_pool_slots DROP CONSTRAINT slots_with_bot_follow_status",
            (
                "UPDATE bot_pool_slots SET assigned_bot_id = NULL, assignment_id = NULL "
                f"WHERE {BUSY_SLOT}"
            ),
        ),
        "slot pool-google-meet-001, status busy, bot none",
    ),
    "unique_names": (
        (
            "ALTER TABLE bot_pool_slots DROP CONSTRAINT slots_container_unique",
            "UPDATE bot_pool_slots SET container_id = 'one-and-the-same'",
        ),
        "twice process container one-and-the-same",
    ),
    "pool_maximum": (
        ("UPDATE pools SET max_size = 1 WHERE platform = 'google-meet'",),
        "pool google-meet, maximum 1, slots 2",
    ),
    "queued_and_queue_row": (("DELETE FROM bot_pool_queue",), f"bot {WAITING}, status QUEUED"),
    "slot_has_its_assignment": (
        (f"UPDATE assignments SET ended_at = now() WHERE bot_id = {RUNNING}",),
        f"bot {RUNNING}",
    ),
    "assignment_has_its_slot": (
        (f"UPDATE assignments SET ended_at = NULL WHERE bot_id = {DONE}",),
        f"bot {DONE}, slot pool-google-meet-002",
    ),
    "bot_history": (
        (f"DELETE FROM history WHERE bot_id = {DONE} AND to_state = 'JOINING_CALL'",),
        f"bot {DONE}, history DEPLOYING, then JOINING_CALL → DONE",
    ),
    "slot_history": (
        ("DELETE FROM history WHERE kind = 'slot.status' AND to_state = 'releasing'",),
        "history busy, then releasing → idle",
    ),
    "live_bot_has_its_place": (
        (f"UPDATE bots SET status = 'IN_CALL', ended_at = NULL WHERE id = {DONE}",),
        f"bot {DONE}, status IN_CALL",
    ),
    "final_stays_final": (
        (
            (
                "INSERT INTO history (kind, bot_id, from_state, to_state, reason) "
                f"VALUES ('bot.status', {DONE}, 'DONE', 'FAILED', 'by hand')"
            ),
        ),
        f"bot {DONE}, was DONE, became FAILED",
    ),
    "queue_is_served": (
        ("UPDATE pools SET max_size = 1 WHERE platform = 'teams'",),
        f"next bot {WAITING}, pool teams",
    ),
    "work_has_a_next_step": (
        (
            (
                "UPDATE bot_pool_slots SET status = 'error', error_message = 'by hand' "
                f"WHERE {IDLE_SLOT}"
            ),
        ),
        "slot pool-google-meet-002, status error",
    ),
    "leaders_deploy": (
        (f"UPDATE bot_pool_slots SET leads_image = 'demo', place = 'here' WHERE {BUSY_SLOT}",),
        "slot pool-google-meet-001, status busy, image demo",
    ),
    "ended_bot_leaves_its_slot": (
        (f"UPDATE bots SET status = 'DONE', ended_at = now() WHERE id = {RUNNING}",),
        f"bot {RUNNING}, bot status DONE",
    ),
    "steps_are_made": (
        (f"UPDATE bot_pool_slots SET next_step_at = now() - interval '90 s' WHERE {BUSY_SLOT}",),
        "slot pool-google-meet-001, status busy, due for 9",
    ),
    "leases_end": (
        (
            (
                "UPDATE bot_pool_slots SET lease_owner = 'gone:1:ab', "
                f"lease_until = now() - interval '90 s' WHERE {BUSY_SLOT}"
            ),
        ),
        "owner gone:1:ab, ended for 9",
    ),
    "waiting_is_limited": (
        (
            (
                "UPDATE bot_pool_slots SET status = 'deploying', phase = 'waiting_for_image', "
                f"phase_at = now() - interval '32 min' WHERE {BUSY_SLOT}"
            ),
        ),
        "phase waiting_for_image, for 192",
    ),
    "backends_are_set_up": (
        (f"UPDATE bot_pool_slots SET backend = 'docker' WHERE {IDLE_SLOT}",),
        "slot pool-google-meet-002, status idle, backend docker",
    ),
    "maximum_duration": (
        (f"UPDATE bots SET started_at = now() - interval '6 h 2 min' WHERE id = {RUNNING}",),
        f"bot {RUNNING}, status JOINING_CALL, for 217",
    ),
}


def test_every_rule_is_broken_here() -> None:
    assert set(BROKEN) == {rule.name for rule in RULES}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_and_named(patient: Patient, name: str) -> None:
    statements, words = BROKEN[name]
    patient.break_(*statements)
    report = patient.examine()
    (rule,) = (rule for rule in RULES if rule.name == name)
    found = report.findings[name]
    assert found["result"] == ("warning" if rule.harmless else "wrong")
    assert words in found["found"]
    assert found["remedy"] == rule.remedy
    assert report.code == (0 if rule.harmless else 1)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            (
                "INSERT INTO bot_pool_queue (bot_id, platform, queued_at, timeout_at) "
                f"VALUES ({RUNNING}, 'google-meet', now(), now())"
            ),
            (
                f"bot {RUNNING}, status JOINING_CALL, problem a queue row; "
                f"bot {RUNNING}, status busy, problem queued and in pool-google-meet-001"
            ),
        ),
        (
            f"UPDATE bots SET status = 'DEPLOYING' WHERE id = {WAITING}",
            f"bot {WAITING}, status DEPLOYING, problem a queue row",
        ),
    ],
)
def test_a_queue_row_too_many(patient: Patient, statement: str, words: str) -> None:
    patient.break_(statement)
    assert words in patient.examine().findings["queued_and_queue_row"]["found"]


@pytest.mark.parametrize(
    ("check", "statement", "words"),
    [
        (
            "bot_history",
            f"UPDATE bots SET status = 'IN_CALL' WHERE id = {RUNNING}",
            f"bot {RUNNING}, history ends with JOINING_CALL, it is IN_CALL",
        ),
        (
            "slot_history",
            (
                f"UPDATE bot_pool_slots SET status = 'releasing', next_step_at = now() "
                f"WHERE {BUSY_SLOT}"
            ),
            "history ends with busy, it is releasing",
        ),
    ],
)
def test_a_status_that_history_does_not_know(
    patient: Patient, check: str, statement: str, words: str
) -> None:
    patient.break_(statement)
    report = patient.examine()
    assert report.checks("wrong") == {check}
    assert words in report.findings[check]["found"]


def test_a_queue_beside_an_idle_slot_is_not_served(patient: Patient) -> None:
    patient.break_(
        "UPDATE bots SET platform = 'google-meet' WHERE status = 'QUEUED'",
        "UPDATE bot_pool_queue SET platform = 'google-meet'",
        "UPDATE pools SET max_size = 2 WHERE platform = 'google-meet'",
    )
    assert patient.examine().checks("wrong") == {"queue_is_served"}
    patient.break_("UPDATE bot_pool_slots SET cordoned = true")
    assert patient.examine().code == 0, "a cordoned slot serves nobody"


def test_limits_are_those_of_the_settings(patient: Patient, settings: pytest.MonkeyPatch) -> None:
    patient.break_(f"UPDATE bots SET started_at = now() - interval '8 h' WHERE id = {RUNNING}")
    assert patient.examine().checks("wrong") == {"maximum_duration"}
    settings.setenv("BOTPOOL_BOTS__MAX_DURATION_S", "30000")
    assert patient.examine().code == 0
    settings.setenv("BOTPOOL_BOTS__MAX_DURATION_S", "0")
    assert patient.examine().code == 0, "0 is none"


@pytest.mark.parametrize("last", [f"bot_id = {DONE}", "to_state = 'deploying'"])
def test_history_that_retention_removed_is_not_missed(patient: Patient, last: str) -> None:
    """The oldest rows go first: what is from before those that are left has no beginning."""
    patient.break_(f"DELETE FROM history WHERE id <= (SELECT max(id) FROM history WHERE {last})")
    report = patient.examine()
    assert report.code == 0, report.checks("wrong")


# Database, schema, containers.


def test_a_database_that_does_not_answer(patient: Patient, settings: pytest.MonkeyPatch) -> None:
    url = f"postgresql://botpool:{PASSWORD}@127.0.0.1:{free_port()}/botpool"
    settings.setenv("DATABASE_URL", url)
    report = patient.examine()
    assert report.code == 1
    assert report.checks("wrong") == {"database"}
    assert "Connection refused" in report.findings["database"]["found"]
    assert report.findings["backend"]["result"] == "ok", "the rest is still examined"


def test_a_database_without_the_schema(
    patient: Patient, postgres: TestPostgres, settings: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database()
    settings.setenv("DATABASE_URL", url)
    report = patient.examine()
    assert report.checks("wrong") == {"schema"}
    assert "lacks the migration 0001-first-schema" in report.findings["schema"]["found"]
    postgres.drop_database(url)


def test_a_newer_schema(patient: Patient) -> None:
    patient.break_(
        "INSERT INTO _yoyo_migration (migration_hash, migration_id, applied_at_utc) "
        "VALUES ('x', '9999-from-the-future', now())"
    )
    report = patient.examine()
    assert (report.code, report.checks("wrong")) == (1, {"schema"})
    assert "9999-from-the-future" in report.findings["schema"]["found"]


def test_settings_of_the_server_that_would_hurt(patient: Patient) -> None:
    name = psycopg.conninfo.conninfo_to_dict(patient.url)["dbname"]
    patient.break_(
        f"ALTER DATABASE {name} SET idle_session_timeout = '1min'",
        f"ALTER DATABASE {name} SET synchronous_commit = off",
    )
    report = patient.examine()
    assert "idle_session_timeout is 60000 ms" in report.findings["timeouts"]["found"]
    assert "synchronous_commit" in report.findings["durability"]["found"]


def test_notices_that_nobody_hears(patient: Patient, settings: pytest.MonkeyPatch) -> None:
    """As behind a pooler that gives each transaction another connection."""

    def without_listening(name: str) -> str:
        return statement("check_ready" if name == "listen_for_doctor" else name)

    settings.setattr("botpool.store.examiner.statement", without_listening)
    report = patient.examine()
    assert report.findings["listen"]["result"] == "warning"
    assert report.code == 0, "replicas poll"


def test_a_leftover_container_is_named_and_not_touched(patient: Patient) -> None:
    async def leave() -> str:
        backend = ProcessBackend(patient.directory / "containers", INSTALLATION, ())
        return await backend.ensure(spec("pool-zoom-007"), timeout_s=PATIENCE_S)

    left = asyncio.run(leave())
    report = patient.examine()
    assert (report.code, report.checks("wrong")) == (1, {"leftover_containers"})
    assert report.findings["leftover_containers"]["found"] == f"process: pool-zoom-007 ({left})"
    assert (patient.directory / "containers" / left).is_dir()


def test_a_container_of_another_installation_is_none_of_ours(patient: Patient) -> None:
    async def leave() -> None:
        backend = ProcessBackend(patient.directory / "containers", "somebody-else", ())
        await backend.ensure(spec("pool-zoom-007"), timeout_s=PATIENCE_S)

    asyncio.run(leave())
    assert patient.examine().code == 0


def test_a_missing_container_is_named(patient: Patient) -> None:
    (container,) = (patient.directory / "containers").glob("pool-google-meet-002.*")
    shutil.rmtree(container)
    report = patient.examine()
    assert report.code == 0, "it is made again"
    assert report.findings["missing_containers"]["result"] == "warning"
    assert report.findings["missing_containers"]["found"] == "process: pool-google-meet-002"


@pytest.mark.parametrize("paused", [False, True])
def test_a_platform_that_does_not_answer(
    patient: Patient, settings: pytest.MonkeyPatch, paused: bool
) -> None:
    """It is named, without its token; what is asked of it is written nowhere."""
    for name, value in {
        "BACKENDS__COOLIFY__URL": f"http://127.0.0.1:{free_port()}",
        "BACKENDS__COOLIFY__TOKEN": PASSWORD,
        "BACKENDS__COOLIFY__PROJECT_UUID": "p",
        "BACKENDS__COOLIFY__SERVER_UUID": "s",
        "SERVER__PUBLIC_URL": "https://botpool.example.org",
        "POOLS__GOOGLE_MEET__BACKEND": "coolify",
        "POOLS__GOOGLE_MEET__IMAGE": "bot:1",
        "POOLS__TEAMS__BACKEND": "coolify",
        "POOLS__TEAMS__IMAGE": "bot:1",
    }.items():
        settings.setenv(f"BOTPOOL_{name}", value)
    patient.break_(
        "INSERT INTO backends (name, paused_until) "
        f"VALUES ('coolify', now() + interval '{90 if paused else 0} s')",
        "UPDATE bot_pool_slots SET backend = 'coolify'",
    )
    report = patient.examine()
    found = report.findings["backend"]
    assert found["found"].startswith("coolify: ")
    if paused:
        assert (report.code, found["result"]) == (0, "warning")
        assert "asked to be left alone" in found["found"]
    else:
        assert (report.code, report.checks("wrong")) == (1, {"backend"})
        assert "does not answer" in found["found"]
    with psycopg.connect(patient.url) as connection:
        assert connection.execute("SELECT count(*) FROM backend_requests").fetchone() == (0,)


def test_a_backend_that_cannot_work(patient: Patient) -> None:
    shutil.rmtree(patient.directory / "containers")
    report = patient.examine()
    assert report.checks("wrong") == {"backend"}
    assert "cannot be read" in report.findings["backend"]["found"]
    assert not (patient.directory / "containers").exists(), "nothing was made"


# Used wrongly, or where nothing runs.


def test_where_nothing_runs(settings: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured) -> None:
    data_dir = tmp_path / "nowhere"
    assert main(["doctor", f"--data-dir={data_dir}"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"botpool: No Botpool runs on the data directory {data_dir}: ")
    assert "'botpool up'" in err
    assert err.count("\n") == 1
    assert not data_dir.exists()


def test_used_wrongly(settings: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert main(["doctor", "--nonsense"]) == 2
    settings.setenv("BOTPOOL_SERVER__PORT", "99999")
    assert main(["doctor"]) == 2
    assert "server.port" in capsys.readouterr().err


def test_the_table_for_people(patient: Patient, settings: pytest.MonkeyPatch) -> None:
    settings.setenv("COLUMNS", "200")
    patient.break_(*BROKEN["pool_maximum"][0])
    assert main(["doctor", f"--data-dir={patient.directory}"]) == 1
    lines = patient.captured.readouterr().out.splitlines()
    assert lines[0].split() == ["CHECK", "RESULT", "FOUND", "WHAT", "TO", "DO"]
    (row,) = (line for line in lines if line.startswith("pool_maximum "))
    assert "wrong" in row
    assert "maximum 1, slots 2" in row
    assert "See that a replica runs" in row
    assert lines[-1].endswith("1 wrong, 2 with a warning.")


@contextmanager
def _up(data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`botpool up` of its own process, stopped as by Ctrl-C."""
    log = data_dir.with_name("up.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [BOTPOOL, "up", f"--data-dir={data_dir}", f"--port={free_port()}"],
            env=os.environ | {"NO_COLOR": "1"},
            cwd=data_dir.parent,
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while "Botpool is ready" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
