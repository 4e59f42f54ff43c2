"""What the doctor makes of what it reads; and its catalogue, its SQL and its page say the same."""

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
from botpool.domain.ids import ContainerId
from botpool.engine.maintenance.doctor import CATALOGUE, Check, Finding, Result
from botpool.engine.maintenance.doctor.backends import compare
from botpool.engine.maintenance.doctor.database import ServerFacts, judge_replicas, judge_server
from botpool.engine.maintenance.doctor.rules import RULES, finding_of, still
from botpool.store import readonly_connection

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "when-something-is-wrong.md"
CHECKS = Path(readonly_connection.__file__).parent / "sql" / "checks"
NAMES = sorted(path.stem for path in CHECKS.glob("*.sql"))
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WELL = ServerFacts(
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


# One catalogue.


def test_the_page_lists_every_check_in_its_own_words() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(check.name, check.meaning, check.remedy) for check in CATALOGUE]


def test_names_are_unique() -> None:
    assert len({check.name for check in CATALOGUE}) == len(CATALOGUE)


def test_every_rule_has_its_file_and_every_file_its_rule() -> None:
    assert sorted(rule.name for rule in RULES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_says_what_it_finds_stands_alone_and_only_reads(name: str) -> None:
    text = readonly_connection.check_statement(name)
    assert text.startswith("-- "), "its purpose is its first line"
    body = re.sub(r"--[^\n]*", "", text)
    assert ";" not in body, "one statement a file"
    assert not re.search(r"\*(?!\))|\b(INSERT|UPDATE|DELETE|FOR UPDATE)\b", body), "reads columns"
    assert not re.search(r"meeting_url|bot_data|key_hash|display_name", body), "shows no secret"


# The server's own words.


def judged(facts: ServerFacts, *, slow_s: float = 0.01) -> dict[str, Finding]:
    findings = judge_server(facts, asked_at=NOW, answered_at=NOW + timedelta(seconds=slow_s))
    return {finding.check: finding for finding in findings}


def test_a_server_in_order() -> None:
    assert {finding.result for finding in judged(WELL).values()} == {Result.OK}


@pytest.mark.parametrize(
    ("changes", "check", "result", "words"),
    [
        ({"version_number": 130_015, "version": "13.15"}, "database_version", "wrong", "13.15"),
        ({"is_standby": True}, "database_version", "wrong", "takes no writes"),
        ({"is_read_only": True}, "database_version", "wrong", "takes no writes"),
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
            "6.0 s apart: the database's is behind",
        ),
    ],
)
def test_a_server_that_is_not(changes: dict[str, Any], check: str, result: str, words: str) -> None:
    findings = judged(replace(WELL, **changes))
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
def test_just_good_enough(changes: dict[str, Any]) -> None:
    assert {finding.result for finding in judged(replace(WELL, **changes)).values()} == {Result.OK}


def test_a_slow_answer_is_no_skew() -> None:
    clock = NOW + timedelta(seconds=20)
    assert judged(replace(WELL, clock=clock), slow_s=30)["clock"].result == Result.OK


def test_replicas_by_their_connections_and_leases() -> None:
    assert judge_replicas({"connected": [], "at_work": []}).result == Result.WARNING
    found = judge_replicas({"connected": ["10.0.0.1 (5)"], "at_work": ["host:7:ab"]}).found
    assert found == "connections from 10.0.0.1 (5); leases of host:7:ab"


# Containers against slots.


def row(name: str, container_id: str | None, status: str = "idle") -> dict[str, Any]:
    return {"slot_name": name, "backend": "b", "container_id": container_id, "status": status}


def container(name: str, container_id: str) -> OwnedContainer:
    return OwnedContainer(container_id=ContainerId(container_id), name=name)


@pytest.mark.parametrize(
    ("before", "listed", "after", "leftover", "missing"),
    [
        ([row("s1", "a")], [container("s1", "a")], [row("s1", "a")], [], []),
        ([], [container("s1", "a")], [], ["a"], []),
        # A duplicate of the slot's name is not the slot's container.
        (
            [row("s1", "a")],
            [container("s1", "a"), container("s1", "b")],
            [row("s1", "a")],
            ["b"],
            [],
        ),
        # Being made: its slot does not know the id yet, or learned it meanwhile.
        ([row("s1", None)], [container("s1", "a")], [row("s1", None)], [], []),
        ([row("s1", None)], [container("s1", "a")], [row("s1", "a")], [], []),
        ([row("s1", None)], [], [row("s1", "a")], [], []),
        ([row("s1", "a")], [], [row("s1", "a")], [], ["s1"]),
        # Made again meanwhile, removed meanwhile, being deleted.
        ([row("s1", "a")], [], [row("s1", "b")], [], []),
        ([row("s1", "a")], [], [], [], []),
        ([row("s1", "a")], [], [row("s1", "a", "deleting")], [], []),
    ],
)
def test_containers_against_slots(
    before: list[dict[str, Any]],
    listed: list[OwnedContainer],
    after: list[dict[str, Any]],
    leftover: list[str],
    missing: list[str],
) -> None:
    compared = compare(before=before, listed=listed, after=after)
    assert [found.container_id for found in compared.leftover] == leftover
    assert compared.missing == missing


# Rows as findings.


def test_only_what_is_still_there_counts() -> None:
    before = [{"slot": "a", "due_for_s": 61}, {"slot": "b", "due_for_s": 61}]
    after = [{"slot": "b", "due_for_s": 64}, {"slot": "c", "due_for_s": 61}]
    assert still(before, after) == [{"slot": "b", "due_for_s": 64}]


def test_rows_are_told_in_words_and_not_all_of_them() -> None:
    rule = RULES[0]
    few = finding_of(rule, [{"slot": "s", "bot": None, "due_for_s": 90}])
    assert few.found == "slot s, bot none, due for 90 s"
    assert (few.result, few.remedy) == (Result.WRONG, rule.remedy)
    many = finding_of(rule, [{"bot": number} for number in range(50)])
    assert many.found == "50 in all: bot 0; bot 1; bot 2; …"
    assert finding_of(rule, []).result == Result.OK


# The table.


def drawn(findings: list[Finding], width: int) -> str:
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    out.print(table(findings))
    return cast("io.StringIO", out.file).getvalue()


CHECK = Check(name="ended_bot_leaves_its_slot", meaning="well", remedy="Do this and that.")


def test_the_table_fits_80_columns_and_loses_no_word() -> None:
    text = drawn(
        [CHECK.wrong("slot pool-google-meet-001, status busy, bot 123456"), CHECK.ok()], 80
    )
    assert max(map(len, text.splitlines())) <= 80
    for word in ("ended_bot_leaves_its_slot", "wrong", "ok", "123456", "that.", "well"):
        assert word in text


def test_what_a_platform_says_cannot_steer_the_terminal() -> None:
    text = drawn([CHECK.wrong("\x1b[2J\x1b]0;owned\x07[red]name[/]\r\nsecond")], 200)
    assert not {"\x1b", "\x07", "\r"} & set(text)
    assert "[red]name[/] second" in text


def test_the_verdict() -> None:
    assert verdict([CHECK.ok(), CHECK.ok()]) == "2 checks: no problem found."
    told = verdict([CHECK.ok(), CHECK.warning("x"), CHECK.wrong("y")])
    assert told == "3 checks: 1 wrong, 1 with a warning."
