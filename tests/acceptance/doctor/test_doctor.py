"""`botpool doctor` on healthy and broken installations."""

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
from botpool.engine.maintenance.doctor import ALL_CHECKS
from botpool.store.maintenance import record_strays
from botpool.store.migrator import migrate
from botpool.store.readonly_connection import ReadonlyConnection
from botpool.store.statements import statement_text
from tests.acceptance.doctor.checked_installation import (
    INSTALLATION,
    PASSWORD,
    TIMEOUT_S,
    Captured,
    CheckedInstallation,
    spec,
)
from tests.support.fences import NO_ASSIGNMENT
from tests.support.http_server import BOTPOOL, unchanged
from tests.support.ports import free_port
from tests.support.postgres import TestPostgres

CHECKS = {check.name for check in ALL_CHECKS} - {"nodes_readable"}
"""All checks but the one of Kubernetes, on which no pool of these tests runs."""

# Healthy installations.


def test_healthy_installation_beside_running_up_has_no_problem(
    settings: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    data_dir = tmp_path / "own"
    with _up(data_dir) as process:
        before = sorted(path.name for path in data_dir.iterdir())
        assert main(["doctor", f"--data-dir={data_dir}"]) == 0
        out, err = capsys.readouterr()
        assert main(["doctor", "--json", f"--data-dir={data_dir}"]) == 0
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert process.poll() is None, "the server still runs"
        assert sorted(path.name for path in data_dir.iterdir()) == before
    # Other users may have no access to the interpreter of the tests: see test_process_users.py.
    shared = sum(each["check"] == "bot_users" and each["result"] != "ok" for each in findings)
    assert [each["result"] for each in findings].count("ok") == len(findings) - shared
    assert {each["check"] for each in findings} == CHECKS
    result = "0 wrong, 1 with a warning" if shared else "no problem found"
    assert out.splitlines()[-1] == f"{len(CHECKS)} checks: {result}."
    assert err == ""


def test_doctor_changes_nothing_and_finds_no_fault_in_healthy_database(
    installation: CheckedInstallation,
) -> None:
    with unchanged(installation.url):
        report = installation.run_doctor()
    assert report.code == 0
    assert report.checks("warning") == {"durability", "replicas", "bot_users"}, (
        "fsync is off, no replica runs, and the data_dir is private"
    )
    assert "bots run as " in report.findings["bot_users"]["found"]
    assert set(report.findings) == CHECKS
    assert "off: fsync" in report.findings["durability"]["found"]


def test_doctor_works_with_older_postgresql(
    debian_postgres: TestPostgres, installation: CheckedInstallation, settings: pytest.MonkeyPatch
) -> None:
    url = debian_postgres.create_database()
    migrate(url)
    settings.setenv("DATABASE_URL", url)
    report = installation.run_doctor()
    texts = [each["found"] for each in report.findings.values()]
    assert not [text for text in texts if "could not be checked" in text]
    assert report.checks("wrong") == {"leftover_containers"}, "they belong to another database"


async def test_readonly_connection_cannot_write(database_url: str) -> None:
    async with ReadonlyConnection.connected(database_url) as connection:
        with pytest.raises(DatabaseUnavailable, match="read-only transaction"):
            await record_strays(connection, backend="process", container_ids=[], names=[], age_s=0)


# Database, schema, containers.


def test_unreachable_database_is_reported(
    installation: CheckedInstallation, settings: pytest.MonkeyPatch
) -> None:
    url = f"postgresql://botpool:{PASSWORD}@127.0.0.1:{free_port()}/botpool"
    settings.setenv("DATABASE_URL", url)
    report = installation.run_doctor()
    assert report.code == 1
    assert report.checks("wrong") == {"database"}
    assert "Connection refused" in report.findings["database"]["found"]
    assert report.findings["backend"]["result"] == "ok", "the backends are still checked"


def test_missing_schema_is_reported(
    installation: CheckedInstallation, postgres: TestPostgres, settings: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database()
    settings.setenv("DATABASE_URL", url)
    report = installation.run_doctor()
    assert report.checks("wrong") == {"schema"}
    assert "lacks the migration 0001_initial" in report.findings["schema"]["found"]
    postgres.drop_database(url)


def test_newer_schema_is_reported(installation: CheckedInstallation) -> None:
    installation.corrupt("INSERT INTO schema_migrations (name) VALUES ('9999-from-the-future')")
    report = installation.run_doctor()
    assert (report.code, report.checks("wrong")) == (1, {"schema"})
    assert "9999-from-the-future" in report.findings["schema"]["found"]


def test_harmful_server_settings_are_reported(installation: CheckedInstallation) -> None:
    name = psycopg.conninfo.conninfo_to_dict(installation.url)["dbname"]
    installation.corrupt(
        f"ALTER DATABASE {name} SET idle_session_timeout = '1min'",
        f"ALTER DATABASE {name} SET synchronous_commit = off",
    )
    report = installation.run_doctor()
    assert "idle_session_timeout is 60000 ms" in report.findings["timeouts"]["found"]
    assert "synchronous_commit" in report.findings["durability"]["found"]


def test_lost_notifications_are_reported(
    installation: CheckedInstallation, settings: pytest.MonkeyPatch
) -> None:
    """A pooler that gives each transaction another connection loses notifications."""

    def without_listening(name: str) -> str:
        return statement_text("list_migrations" if name == "listen_for_doctor" else name)

    settings.setattr("botpool.store.readonly_connection.statement_text", without_listening)
    report = installation.run_doctor()
    assert report.findings["listen"]["result"] == "warning"
    assert report.code == 0, "replicas poll"


def test_leftover_container_is_reported_and_kept(installation: CheckedInstallation) -> None:
    async def leave() -> str:
        backend = ProcessBackend(installation.directory / "containers", INSTALLATION, ())
        return await backend.ensure(
            spec("pool-zoom-007"), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
        )

    left = asyncio.run(leave())
    report = installation.run_doctor()
    assert (report.code, report.checks("wrong")) == (1, {"leftover_containers"})
    assert report.findings["leftover_containers"]["found"] == f"process: pool-zoom-007 ({left})"
    assert (installation.directory / "containers" / left).is_dir()


def test_container_of_another_installation_is_ignored(installation: CheckedInstallation) -> None:
    async def leave() -> None:
        backend = ProcessBackend(installation.directory / "containers", "another-installation", ())
        await backend.ensure(spec("pool-zoom-007"), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)

    asyncio.run(leave())
    assert installation.run_doctor().code == 0


def test_missing_container_is_a_warning(installation: CheckedInstallation) -> None:
    (container,) = (installation.directory / "containers").glob("pool-google-meet-002.*")
    shutil.rmtree(container)
    report = installation.run_doctor()
    assert report.code == 0, "Botpool creates the container again"
    assert report.findings["missing_containers"]["result"] == "warning"
    assert report.findings["missing_containers"]["found"] == "process: pool-google-meet-002"


@pytest.mark.parametrize("paused", [False, True])
def test_unreachable_backend_is_reported(
    installation: CheckedInstallation, settings: pytest.MonkeyPatch, paused: bool
) -> None:
    """The finding does not contain the token, and the requests are not counted."""
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
    installation.corrupt(
        "INSERT INTO backends (name, paused_until) "
        f"VALUES ('coolify', now() + interval '{90 if paused else 0} s')",
        "UPDATE bot_pool_slots SET backend = 'coolify'",
        "UPDATE slot_identities SET backend = 'coolify'",
    )
    report = installation.run_doctor()
    found = report.findings["backend"]
    assert found["found"].startswith("coolify: ")
    if paused:
        assert (report.code, found["result"]) == (0, "warning")
        assert "asked for a pause" in found["found"]
    else:
        assert (report.code, report.checks("wrong")) == (1, {"backend"})
        assert "does not answer" in found["found"]
    with psycopg.connect(installation.url) as connection:
        assert connection.execute("SELECT count(*) FROM backend_requests").fetchone() == (0,)


def test_unusable_backend_is_reported(installation: CheckedInstallation) -> None:
    shutil.rmtree(installation.directory / "containers")
    report = installation.run_doctor()
    assert report.checks("wrong") == {"backend"}
    assert "cannot read" in report.findings["backend"]["found"]
    assert not (installation.directory / "containers").exists(), "the doctor created nothing"


# Usage errors, and no installation.


def test_doctor_without_installation_fails(
    settings: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    data_dir = tmp_path / "nowhere"
    assert main(["doctor", f"--data-dir={data_dir}"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"botpool: No Botpool runs on the data directory {data_dir}, ")
    assert "'botpool up'" in err
    assert err.count("\n") == 1
    assert not data_dir.exists()


def test_usage_error_exits_with_2(settings: pytest.MonkeyPatch, capsys: Captured) -> None:
    assert main(["doctor", "--nonsense"]) == 2
    settings.setenv("BOTPOOL_SERVER__PORT", "99999")
    assert main(["doctor"]) == 2
    assert "server.port" in capsys.readouterr().err


def test_doctor_reports_a_database_from_another_cluster(installation: CheckedInstallation) -> None:
    with psycopg.connect(installation.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO database_epochs "
            "SELECT 1, now(), 'the database is new', 7, 1, 1, pg_current_xact_id(), 1"
        )
    report = installation.run_doctor()
    assert report.code == 0
    assert report.findings["database_epoch"]["result"] == "warning"
    assert "another PostgreSQL cluster" in report.findings["database_epoch"]["found"]


def test_doctor_names_pools_with_mass_silence(installation: CheckedInstallation) -> None:
    with psycopg.connect(installation.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE pools SET silence_alarm_at = '2026-11-17T10:00:00Z' WHERE pool_name = 'teams'"
        )
    finding = installation.run_doctor().findings["mass_silence"]
    assert (finding["result"], finding["found"]) == ("warning", "teams since 2026-11-17T10:00:00Z")


def test_doctor_reports_a_jump_of_the_clock(installation: CheckedInstallation) -> None:
    with psycopg.connect(installation.url, autocommit=True) as connection:
        connection.execute("INSERT INTO clock_jumps (noticed_at, seconds) VALUES (now(), -3600)")
    finding = installation.run_doctor().findings["clock_jump"]
    assert finding["result"] == "warning"
    assert finding["found"].startswith("3600 s back, noticed at ")


def test_table_shows_finding_and_remedy(
    installation: CheckedInstallation, settings: pytest.MonkeyPatch
) -> None:
    settings.setenv("COLUMNS", "200")
    installation.corrupt("UPDATE pools SET max_size = 1 WHERE pool_name = 'google-meet'")
    assert main(["doctor", f"--data-dir={installation.directory}"]) == 1
    lines = installation.captured.readouterr().out.splitlines()
    assert lines[0].split() == ["CHECK", "RESULT", "FOUND", "WHAT", "TO", "DO"]
    (row,) = (line for line in lines if line.startswith("pool_is_within_maximum "))
    assert "wrong" in row
    assert "maximum 1, slots 2" in row
    assert "Check that a replica runs" in row
    assert lines[-1].endswith("1 wrong, 3 with a warning.")


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
        deadline = time.monotonic() + TIMEOUT_S
        while "Botpool is ready" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
