"""A backend that answers in pages may take longer than one call: the limit applies to each page."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from botpool.domain.policy import Policy
from tests.engine.recovery_cases import pass_time, run_bot
from tests.support.replicas import Stage, pool

CALL_S = 0.05
IMPATIENT = Policy(call_timeout_s=CALL_S)


@pytest.fixture
def slow_calls(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """Let each list take several times the limit of a call, as many pages do."""
    answered: list[str] = []
    for name in ("observe", "list_owned"):

        def slow(call: str, original: Any) -> Any:
            async def answer(backend: Any, *arguments: Any, **options: Any) -> Any:
                assert options["timeout_s"] == CALL_S
                await asyncio.sleep(4 * CALL_S)
                result = await original(backend, *arguments, **options)
                answered.append(call)
                return result

            return answer

        original = getattr(type(stage.backend), name)
        monkeypatch.setattr(type(stage.backend), name, slow(name, original))
    return answered


async def test_list_in_many_pages_outlasts_the_limit_of_one_call(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    first = await stage.replica(pool(1))
    await run_bot(stage, first)
    replica = await stage.replica(pool(1), policy=IMPATIENT)
    answered = request.getfixturevalue("slow_calls")

    assert await replica.observer.observe(stage.backend.name)
    assert answered == ["observe"]

    await replica.cleanup.run()
    assert answered == ["observe", "list_owned"]

    await pass_time(stage, first, 400)
    del answered[:]
    await replica.recovery.recover()
    assert "observe" in answered
