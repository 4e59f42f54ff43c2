"""The doctor finds every invariant that is violated by hand."""

from collections.abc import Sequence

import pytest

from botpool.engine.maintenance.doctor.invariants import INVARIANTS, Kind
from tests.acceptance.doctor.checked_installation import (
    BUSY_SLOT,
    DONE,
    IDLE_SLOT,
    QUEUED,
    RUNNING,
    CheckedInstallation,
)

# The statements that violate each invariant, and a part of the finding.
VIOLATIONS: dict[str, tuple[Sequence[str], str]] = {
    "bot_is_in_one_slot": (
        (
            "DROP INDEX idx_bot_pool_slots_bot",
            (
                f"UPDATE bot_pool_slots SET status = 'busy', assigned_bot_id = {RUNNING}, "
                f"assignment_id = 999 WHERE {IDLE_SLOT}"
            ),
        ),
        f"bot {RUNNING}, slots 2",
    ),
    "status_decides_on_bot": (
        (
            "ALTER TABLE bot_pool_slots DROP CONSTRAINT slots_are_valid",
            (
                "UPDATE bot_pool_slots SET assigned_bot_id = NULL, assignment_id = NULL "
                f"WHERE {BUSY_SLOT}"
            ),
        ),
        "slot pool-google-meet-001, status busy, bot none",
    ),
    "slot_names_are_unique": (
        (
            "ALTER TABLE slot_identities DROP CONSTRAINT slots_container_unique_at_backend",
            "UPDATE bot_pool_slots SET container_id = 'one-and-the-same'",
        ),
        "duplicate process container one-and-the-same",
    ),
    "slot_identity_matches_slot": (
        ("UPDATE slot_identities SET number = number + 100",),
        "slot pool-google-meet-001, recorded pool google-meet, recorded number 101",
    ),
    "pool_is_within_maximum": (
        ("UPDATE pools SET max_size = 1 WHERE pool_name = 'google-meet'",),
        "pool google-meet, maximum 1, slots 2",
    ),
    "queued_bot_has_queue_row": (("DELETE FROM bot_pool_queue",), f"bot {QUEUED}, status QUEUED"),
    "slot_has_current_assignment": (
        (f"UPDATE assignments SET ended_at = now() WHERE bot_id = {RUNNING}",),
        f"bot {RUNNING}",
    ),
    "open_assignment_has_slot": (
        (f"UPDATE assignments SET ended_at = NULL WHERE bot_id = {DONE}",),
        f"bot {DONE}, slot pool-google-meet-002",
    ),
    "bot_history_is_complete": (
        (f"DELETE FROM history WHERE bot_id = {DONE} AND to_state = 'JOINING_CALL'",),
        f"bot {DONE}, history DEPLOYING, then JOINING_CALL → DONE",
    ),
    "slot_history_is_complete": (
        ("DELETE FROM history WHERE kind = 'slot.status' AND to_state = 'releasing'",),
        "history busy, then releasing → idle",
    ),
    "live_bot_has_slot_or_queue_row": (
        (f"UPDATE bots SET status = 'IN_CALL', ended_at = NULL WHERE id = {DONE}",),
        f"bot {DONE}, status IN_CALL",
    ),
    "final_status_is_kept": (
        (
            (
                "INSERT INTO history (kind, bot_id, from_state, to_state, reason) "
                f"VALUES ('bot.status', {DONE}, 'DONE', 'FAILED', 'by hand')"
            ),
        ),
        f"bot {DONE}, was DONE, became FAILED",
    ),
    "live_count_matches_slots": (
        ("INSERT INTO tenants (name, max_live, live) VALUES ('acme', 5, 3)",),
        "tenant acme, counted 3, slots 0",
    ),
    "slot_has_tenant_of_its_bot": (
        (f"UPDATE bot_pool_slots SET tenant_id = 7 WHERE {BUSY_SLOT}",),
        "slot tenant 7, bot tenant 1",
    ),
    "shared_pools_match_tenants": (
        ("INSERT INTO tenants (name) VALUES ('acme')",),
        "pool google-meet, shared False, needed True",
    ),
    "queue_is_matched": (
        ("UPDATE pools SET max_size = 1 WHERE pool_name = 'teams'",),
        f"next bot {QUEUED}, pool teams",
    ),
    "active_slot_has_next_step": (
        (
            (
                "UPDATE bot_pool_slots SET status = 'error', error_message = 'by hand' "
                f"WHERE {IDLE_SLOT}"
            ),
        ),
        "slot pool-google-meet-002, status error",
    ),
    "image_leader_is_deploying": (
        (f"UPDATE bot_pool_slots SET leads_image = 'demo', image_host = 'here' WHERE {BUSY_SLOT}",),
        "slot pool-google-meet-001, status busy, image demo",
    ),
    "ended_bot_has_no_slot": (
        (f"UPDATE bots SET status = 'DONE', ended_at = now() WHERE id = {RUNNING}",),
        f"bot {RUNNING}, bot status DONE",
    ),
    "due_step_is_taken": (
        (f"UPDATE bot_pool_slots SET next_step_at = now() - interval '90 s' WHERE {BUSY_SLOT}",),
        "slot pool-google-meet-001, status busy, due for 9",
    ),
    "expired_lease_is_taken_over": (
        (
            (
                "UPDATE bot_pool_slots SET lease_owner = 'gone:1:ab', "
                f"lease_until = now() - interval '90 s' WHERE {BUSY_SLOT}"
            ),
        ),
        "owner gone:1:ab, ended for 9",
    ),
    "waiting_phase_is_within_limit": (
        (
            (
                "UPDATE bot_pool_slots SET status = 'deploying', phase = 'waiting_for_image', "
                f"phase_at = now() - interval '32 min' WHERE {BUSY_SLOT}"
            ),
        ),
        "phase waiting_for_image, for 192",
    ),
    "backend_of_slot_is_configured": (
        (f"UPDATE bot_pool_slots SET backend = 'docker' WHERE {IDLE_SLOT}",),
        "slot pool-google-meet-002, status idle, backend docker",
    ),
    "bot_is_within_maximum_duration": (
        (f"UPDATE bots SET started_at = now() - interval '6 h 2 min' WHERE id = {RUNNING}",),
        f"bot {RUNNING}, status JOINING_CALL, for 217",
    ),
}


def test_every_invariant_has_a_violation_here() -> None:
    assert set(VIOLATIONS) == {invariant.name for invariant in INVARIANTS}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_violated_invariant_is_reported(installation: CheckedInstallation, name: str) -> None:
    statements, words = VIOLATIONS[name]
    installation.corrupt(*statements)
    report = installation.run_doctor()
    (invariant,) = (each for each in INVARIANTS if each.name == name)
    found = report.findings[name]
    assert found["result"] == ("warning" if invariant.kind is Kind.HARMLESS else "wrong")
    assert words in found["found"]
    assert found["remedy"] == invariant.remedy
    assert report.code == (0 if invariant.kind is Kind.HARMLESS else 1)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            (
                "INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at) "
                f"VALUES ({RUNNING}, 'google-meet', now(), now())"
            ),
            (
                f"bot {RUNNING}, status JOINING_CALL, problem a queue row; "
                f"bot {RUNNING}, status busy, problem queued and in pool-google-meet-001"
            ),
        ),
        (
            f"UPDATE bots SET status = 'DEPLOYING' WHERE id = {QUEUED}",
            f"bot {QUEUED}, status DEPLOYING, problem a queue row",
        ),
    ],
)
def test_queue_row_without_queued_bot_is_reported(
    installation: CheckedInstallation, statement: str, words: str
) -> None:
    installation.corrupt(statement)
    assert words in installation.run_doctor().findings["queued_bot_has_queue_row"]["found"]


@pytest.mark.parametrize(
    ("check", "statement", "words"),
    [
        (
            "bot_history_is_complete",
            f"UPDATE bots SET status = 'IN_CALL' WHERE id = {RUNNING}",
            f"bot {RUNNING}, history ends with JOINING_CALL, status is IN_CALL",
        ),
        (
            "slot_history_is_complete",
            (
                f"UPDATE bot_pool_slots SET status = 'releasing', next_step_at = now() "
                f"WHERE {BUSY_SLOT}"
            ),
            "history ends with busy, status is releasing",
        ),
    ],
)
def test_status_that_differs_from_history_is_reported(
    installation: CheckedInstallation, check: str, statement: str, words: str
) -> None:
    installation.corrupt(statement)
    report = installation.run_doctor()
    assert report.checks("wrong") == {check}
    assert words in report.findings[check]["found"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE pools SET shared = true", "pool google-meet, shared True, needed False"),
        ("UPDATE bot_pool_queue SET tenant_id = 7", "pool teams, shared False, needed True"),
        ("UPDATE tenants SET max_live = 9", "pool google-meet, shared False, needed True"),
    ],
)
def test_pools_that_disagree_with_the_tenants_are_reported(
    installation: CheckedInstallation, statement: str, words: str
) -> None:
    installation.corrupt(statement)
    assert words in installation.run_doctor().findings["shared_pools_match_tenants"]["found"]


def test_queue_beside_idle_slot_is_reported(installation: CheckedInstallation) -> None:
    installation.corrupt(
        "UPDATE bots SET pool_name = 'google-meet' WHERE status = 'QUEUED'",
        "UPDATE bot_pool_queue SET pool_name = 'google-meet'",
        "UPDATE pools SET max_size = 2 WHERE pool_name = 'google-meet'",
    )
    assert installation.run_doctor().checks("wrong") == {"queue_is_matched"}
    installation.corrupt("UPDATE bot_pool_slots SET cordoned = true")
    assert installation.run_doctor().code == 0, "a cordoned slot is not assignable"


def test_limits_come_from_the_settings(
    installation: CheckedInstallation, settings: pytest.MonkeyPatch
) -> None:
    installation.corrupt(
        f"UPDATE bots SET started_at = now() - interval '8 h' WHERE id = {RUNNING}"
    )
    assert installation.run_doctor().checks("wrong") == {"bot_is_within_maximum_duration"}
    settings.setenv("BOTPOOL_BOTS__MAX_DURATION_S", "30000")
    assert installation.run_doctor().code == 0
    settings.setenv("BOTPOOL_BOTS__MAX_DURATION_S", "0")
    assert installation.run_doctor().code == 0, "0 means no maximum"


@pytest.mark.parametrize("last", [f"bot_id = {DONE}", "to_state = 'deploying'"])
def test_history_that_retention_deleted_is_not_reported(
    installation: CheckedInstallation, last: str
) -> None:
    """Retention deletes the oldest rows, so that the remaining history has no beginning."""
    installation.corrupt(
        f"DELETE FROM history WHERE id <= (SELECT max(id) FROM history WHERE {last})"
    )
    report = installation.run_doctor()
    assert report.code == 0, report.checks("wrong")
