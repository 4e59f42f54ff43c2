"""The doctor's findings from what it reads; its checks, SQL files and page agree."""

import io
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from botpool.backends.protocol import OwnedContainer
from botpool.cli.doctor import table, verdict
from botpool.domain.ids import ContainerId, PoolName
from botpool.domain.states import SlotStatus
from botpool.engine.maintenance.doctor import ALL_CHECKS, Check, Finding, Result
from botpool.engine.maintenance.doctor.backends import compare
from botpool.engine.maintenance.doctor.database import replicas_finding, server_findings
from botpool.engine.maintenance.doctor.incidents import promoted_finding
from botpool.engine.maintenance.doctor.invariants import INVARIANTS, finding_of, persistent
from botpool.engine.maintenance.doctor.listeners import file_limit_finding, listener_finding
from botpool.store import readonly_connection
from botpool.store.doctor import ConnectedReplicas, PromotedImage, ServerFacts, SlotContainer
from botpool.store.liveness import Listener

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "when-something-is-wrong.md"
CHECKS = Path(readonly_connection.__file__).parent / "sql" / "checks"
NAMES = sorted(path.stem for path in CHECKS.glob("*.sql"))
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEALTHY = ServerFacts(
    version="16.3",
    version_number=160_003,
    is_standby=False,
    is_read_only=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit=True,
    autovacuum=True,
    max_connections=100,
    reserved_connections=3,
    used_connections=20,
    idle_session_timeout_ms=0,
    transaction_timeout_ms=0,
    clock=NOW,
)


# Names and texts.


def test_page_lists_every_check() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(check.name, check.meaning, check.remedy) for check in ALL_CHECKS]


def test_check_names_are_unique() -> None:
    assert len({check.name for check in ALL_CHECKS}) == len(ALL_CHECKS)


def test_every_invariant_has_a_file() -> None:
    assert sorted(invariant.name for invariant in INVARIANTS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_invariant_file_is_one_documented_read(name: str) -> None:
    text = readonly_connection.check_statement(name)
    assert text.startswith("-- "), "the first line says the purpose"
    body = re.sub(r"--[^\n]*", "", text)
    assert ";" not in body, "one statement a file"
    assert not re.search(r"\*(?!\))|\b(INSERT|UPDATE|DELETE|FOR UPDATE)\b", body), "reads columns"
    assert not re.search(r"meeting_url|bot_data|key_hash|display_name", body), "shows no secret"


# The server.


def findings_of(facts: ServerFacts, *, slow_s: float = 0.01) -> dict[str, Finding]:
    findings = server_findings(facts, asked_at=NOW, answered_at=NOW + timedelta(seconds=slow_s))
    return {finding.check: finding for finding in findings}


def test_healthy_server_passes() -> None:
    assert {finding.result for finding in findings_of(HEALTHY).values()} == {Result.OK}


@pytest.mark.parametrize(
    ("changes", "check", "result", "words"),
    [
        ({"version_number": 130_015, "version": "13.15"}, "database_version", "wrong", "13.15"),
        ({"is_standby": True}, "database_version", "wrong", "accepts no writes"),
        ({"is_read_only": True}, "database_version", "wrong", "accepts no writes"),
        ({"fsync": False}, "durability", "warning", "off: fsync"),
        ({"synchronous_commit": False}, "durability", "warning", "off: synchronous_commit"),
        ({"autovacuum": False}, "autovacuum", "warning", "off"),
        ({"used_connections": 81}, "connections", "warning", "81 of 100"),
        ({"idle_session_timeout_ms": 60_000}, "timeouts", "warning", "idle_session_timeout"),
        ({"transaction_timeout_ms": 29_999}, "timeouts", "warning", "transaction_timeout"),
        ({"clock": NOW + timedelta(seconds=5.2)}, "clock", "warning", "is ahead"),
        (
            {"clock": NOW - timedelta(seconds=6)},
            "clock",
            "warning",
            "6.0 s apart: the database's clock is behind",
        ),
    ],
)
def test_problem_of_server_is_reported(
    changes: dict[str, Any], check: str, result: str, words: str
) -> None:
    findings = findings_of(replace(HEALTHY, **changes))
    assert findings[check].result == result
    assert words in findings[check].found
    assert findings[check].remedy
    others = {finding.result for name, finding in findings.items() if name != check}
    assert others == {Result.OK}


@pytest.mark.parametrize(
    "changes",
    [
        {"version_number": 140_000},
        {"used_connections": 80},
        {"transaction_timeout_ms": 30_000},
        {"idle_session_timeout_ms": None, "transaction_timeout_ms": None},
        {"clock": NOW + timedelta(seconds=5)},
    ],
)
def test_server_at_the_limit_passes(changes: dict[str, Any]) -> None:
    assert {finding.result for finding in findings_of(replace(HEALTHY, **changes)).values()} == {
        Result.OK
    }


def test_slow_answer_is_no_clock_skew() -> None:
    clock = NOW + timedelta(seconds=20)
    assert findings_of(replace(HEALTHY, clock=clock), slow_s=30)["clock"].result == Result.OK


def test_replicas_are_found_by_connections_and_leases() -> None:
    assert (
        replicas_finding(ConnectedReplicas(connected=[], lease_owners=[])).result == Result.WARNING
    )
    connected = ConnectedReplicas(connected=["10.0.0.1 (5)"], lease_owners=["host:7:ab"])
    assert replicas_finding(connected).found == "connections from 10.0.0.1 (5); leases of host:7:ab"


# Containers against slots.


def slot(
    name: str, container_id: str | None, status: SlotStatus = SlotStatus.IDLE
) -> SlotContainer:
    known = ContainerId(container_id) if container_id else None
    return SlotContainer(slot_name=name, backend="b", container_id=known, status=status)


def container(name: str, container_id: str) -> OwnedContainer:
    return OwnedContainer(container_id=ContainerId(container_id), name=name)


@pytest.mark.parametrize(
    ("before", "listed", "after", "leftover", "missing"),
    [
        ([slot("s1", "a")], [container("s1", "a")], [slot("s1", "a")], [], []),
        ([], [container("s1", "a")], [], ["a"], []),
        # A duplicate of the slot's name is not the slot's container.
        (
            [slot("s1", "a")],
            [container("s1", "a"), container("s1", "b")],
            [slot("s1", "a")],
            ["b"],
            [],
        ),
        # In creation: the slot has no container id yet, or got it meanwhile.
        ([slot("s1", None)], [container("s1", "a")], [slot("s1", None)], [], []),
        ([slot("s1", None)], [container("s1", "a")], [slot("s1", "a")], [], []),
        ([slot("s1", None)], [], [slot("s1", "a")], [], []),
        ([slot("s1", "a")], [], [slot("s1", "a")], [], ["s1"]),
        # Recreated meanwhile, removed meanwhile, in deletion.
        ([slot("s1", "a")], [], [slot("s1", "b")], [], []),
        ([slot("s1", "a")], [], [], [], []),
        ([slot("s1", "a")], [], [slot("s1", "a", SlotStatus.DELETING)], [], []),
    ],
)
def test_containers_are_compared_with_slots(
    before: list[SlotContainer],
    listed: list[OwnedContainer],
    after: list[SlotContainer],
    leftover: list[str],
    missing: list[str],
) -> None:
    compared = compare(before=before, listed=listed, after=after)
    assert [found.container_id for found in compared.leftover] == leftover
    assert compared.missing == missing


# HTTP servers of replicas.


def listener(**fields: Any) -> Listener:
    recorded = {"replica": "a:1:00", "is_alive": True, "file_limit": 6000, "files_needed": 5376}
    return Listener(**{**recorded, "unanswered_at": None, **fields})


def test_low_file_limit_of_a_replica_is_a_warning() -> None:
    assert file_limit_finding([listener()]).result == Result.OK
    assert file_limit_finding([listener(file_limit=None, files_needed=None)]).result == Result.OK
    low = file_limit_finding([listener(), listener(replica="b:2:00", file_limit=1024)])
    assert low.result == Result.WARNING
    assert low.found == "b:2:00 may open 1024 files and needs 5376"


def test_replica_without_an_answer_in_the_last_day_is_a_warning() -> None:
    assert listener_finding([listener()]).result == Result.OK
    failed = listener_finding([listener(unanswered_at=NOW)])
    assert failed.result == Result.WARNING
    assert failed.found == "no answer: a:1:00 at 2026-03-01T12:00:00Z"


# Violations.


def test_only_persistent_violations_count() -> None:
    before = [{"slot": "a", "due_for_s": 61}, {"slot": "b", "due_for_s": 61}]
    after = [{"slot": "b", "due_for_s": 64}, {"slot": "c", "due_for_s": 61}]
    assert persistent(before, after) == [{"slot": "b", "due_for_s": 64}]


def test_finding_shows_first_violations_in_words() -> None:
    invariant = INVARIANTS[0]
    few = finding_of(invariant, [{"slot": "s", "bot": None, "due_for_s": 90}])
    assert few.found == "slot s, bot none, due for 90 s"
    assert (few.result, few.remedy) == (Result.WRONG, invariant.remedy)
    many = finding_of(invariant, [{"bot": number} for number in range(50)])
    assert many.found == "50 in all: bot 0; bot 1; bot 2; …"
    assert finding_of(invariant, []).result == Result.OK


# The table.


def drawn(findings: list[Finding], width: int) -> str:
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    out.print(table(findings))
    return cast("io.StringIO", out.file).getvalue()


CHECK = Check(name="ended_bot_has_no_slot", meaning="healthy", remedy="Do this and that.")


def test_table_fits_80_columns_without_losing_words() -> None:
    text = drawn(
        [CHECK.wrong("slot pool-google-meet-001, status busy, bot 123456"), CHECK.ok()], 80
    )
    assert max(map(len, text.splitlines())) <= 80
    for word in ("ended_bot_has_no_slot", "wrong", "ok", "123456", "that.", "healthy"):
        assert word in text


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = drawn([CHECK.wrong("\x1b[2J\x1b]0;owned\x07[red]name[/]\r\nsecond")], 200)
    assert not {"\x1b", "\x07", "\r"} & set(text)
    assert "[red]name[/] second" in text


def test_verdict_counts_results() -> None:
    assert verdict([CHECK.ok(), CHECK.ok()]) == "2 checks: no problem found."
    summary = verdict([CHECK.ok(), CHECK.warning("x"), CHECK.wrong("y")])
    assert summary == "3 checks: 1 wrong, 1 with a warning."


def test_promoted_image_that_overrides_the_settings_is_a_warning() -> None:
    promoted = PromotedImage(
        pool_name=PoolName("zoom"), rollout_id=7, image="bot:2", configured_image="bot:1"
    )
    finding = promoted_finding([promoted])
    assert finding.result is Result.WARNING
    assert finding.found == "zoom has bot:2, the settings name bot:1"
    assert promoted_finding([]).result is Result.OK
