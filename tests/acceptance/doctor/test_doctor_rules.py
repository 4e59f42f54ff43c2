"""What must always hold, broken by hand: each is found and named."""

from collections.abc import Sequence

import pytest

from botpool.engine.maintenance.doctor.rules import RULES
from tests.acceptance.doctor.doctor_scene import (
    BUSY_SLOT,
    DONE,
    IDLE_SLOT,
    RUNNING,
    WAITING,
    Patient,
)

# The statements, and words of what is found.
BROKEN: dict[str, tuple[Sequence[str], str]] = {
    "one_slot_per_bot": (
        (
            "DROP INDEX idx_bot_pool_slots_bot",
            (
                f"UPDATE bot_pool_slots SET status = 'busy', assigned_bot_id = {RUNNING}, "
                f"assignment_id = 999 WHERE {IDLE_SLOT}"
            ),
        ),
        f"bot {RUNNING}, slots 2",
    ),
    "bots_follow_status": (
        (
            "ALTER TABLE bot_pool_slots DROP CONSTRAINT slots_are_valid",
            (
                "UPDATE bot_pool_slots SET assigned_bot_id = NULL, assignment_id = NULL "
                f"WHERE {BUSY_SLOT}"
            ),
        ),
        "slot pool-google-meet-001, status busy, bot none",
    ),
    "unique_names": (
        (
            "ALTER TABLE slot_identities DROP CONSTRAINT slots_container_unique_at_backend",
            "UPDATE bot_pool_slots SET container_id = 'one-and-the-same'",
        ),
        "twice process container one-and-the-same",
    ),
    "identities_are_kept": (
        ("UPDATE slot_identities SET number = number + 100",),
        "slot pool-google-meet-001, known pool google-meet, known number 101",
    ),
    "pool_maximum": (
        ("UPDATE pools SET max_size = 1 WHERE pool_name = 'google-meet'",),
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
        ("UPDATE pools SET max_size = 1 WHERE pool_name = 'teams'",),
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
        (f"UPDATE bot_pool_slots SET leads_image = 'demo', image_host = 'here' WHERE {BUSY_SLOT}",),
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
                "INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at) "
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
        "UPDATE bots SET pool_name = 'google-meet' WHERE status = 'QUEUED'",
        "UPDATE bot_pool_queue SET pool_name = 'google-meet'",
        "UPDATE pools SET max_size = 2 WHERE pool_name = 'google-meet'",
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
