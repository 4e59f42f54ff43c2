"""The output of ended runs is read concurrently, so that no observation waits for it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from botpool.domain.communication import Outcome
from botpool.domain.ids import AssignmentId, ContainerId
from tests.support.replicas import Stage, bot_request, pool

BOTS = 3


def read_together(stage: Stage, monkeypatch: pytest.MonkeyPatch, *, readers: int) -> None:
    """Let the backend send output only while that many calls read it."""
    together = asyncio.Barrier(readers)

    async def logs(
        container_id: ContainerId, assignment_id: AssignmentId, *, tail: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        await together.wait()
        yield b"out of memory\n"

    monkeypatch.setattr(stage.backend, "logs", logs)


async def test_bots_that_exit_together_end_with_their_last_lines(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(replace(pool(BOTS), outcome=Outcome.EXIT_CODE, heartbeats="none"))
    bots = [(await replica.admission.admit(bot_request())).bot.id for _ in range(BOTS)]
    await stage.settle(replica)
    for slot in stage.slots():
        stage.backend.exit(slot["container_id"], 1)
    read_together(stage, monkeypatch, readers=BOTS)
    await replica.observer.observe("process")
    reasons = [stage.bot(bot_id)["failure_reason"] for bot_id in bots]
    assert all("out of memory" in reason for reason in reasons), reasons
