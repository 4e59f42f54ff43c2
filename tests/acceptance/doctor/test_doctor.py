"""`botpool doctor`: a healthy system is told so; what is wrong around it is named."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from botpool.backends.process import ProcessBackend
from botpool.cli import main
from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.maintenance.doctor import CATALOGUE
from botpool.store.migrations import migrate
from botpool.store.readonly_connection import ReadonlyConnection
from botpool.store.statements import statement
from tests.acceptance.doctor.doctor_scene import (
    INSTALLATION,
    PASSWORD,
    PATIENCE_S,
    Captured,
    Patient,
    spec,
)
from tests.support.http_server import BOTPOOL, free_port, unchanged
from tests.support.postgres import TestPostgres

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
    assert shown.splitlines()[-1] == f"{len(CATALOGUE)} checks: no problem found."
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
    async with ReadonlyConnection.connected(database_url) as examiner:
        with pytest.raises(DatabaseUnavailable, match="read-only transaction"):
            await examiner.fetch("register_backends", {"backends": ["process"]})


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
    assert "lacks the migration 0001_initial" in report.findings["schema"]["found"]
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
        return statement("list_migrations" if name == "listen_for_doctor" else name)

    settings.setattr("botpool.store.readonly_connection.statement", without_listening)
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
        "UPDATE slot_identities SET backend = 'coolify'",
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
    assert "cannot read" in report.findings["backend"]["found"]
    assert not (patient.directory / "containers").exists(), "nothing was made"


# Used wrongly, or where nothing runs.


def test_where_nothing_runs(settings: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured) -> None:
    data_dir = tmp_path / "nowhere"
    assert main(["doctor", f"--data-dir={data_dir}"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"botpool: No Botpool runs on the data directory {data_dir}, ")
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
    patient.break_("UPDATE pools SET max_size = 1 WHERE pool_name = 'google-meet'")
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
