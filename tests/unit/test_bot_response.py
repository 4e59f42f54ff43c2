"""The response that shows a bot matches its schema in the OpenAPI document."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from botpool.api import schemas
from botpool.api.bot_response import bot_response
from botpool.domain.bots import AdmittedBot, Bot, CreatedBy
from botpool.domain.ids import BotId, ContainerId, PoolName
from botpool.domain.states import BotStatus, EndReason, FailureCode

AT = datetime(2026, 1, 5, 10, 0, 0, 120_000, tzinfo=UTC)
FAILED = Bot(
    id=BotId(7),
    correlation_id="c-1",
    pool_name=PoolName("teams"),
    meeting_url="https://teams.live.com/meet/ä",
    bot_display_name="Botpool",
    status=BotStatus.FAILED,
    priority=100,
    slot_name="pool-teams-001",
    container_id=ContainerId("c1"),
    attempts=2,
    failure_reason='it said "no"',
    failure_code=FailureCode.DEPLOY_FAILED,
    end_reason=EndReason.UNKNOWN,
    artifact_count=2,
    created_at=AT,
    queued_at=AT,
    assigned_at=AT,
    started_at=AT,
    last_heartbeat_at=AT,
    finishing_at=None,
    ended_at=AT,
    tenant="default",
    created_by=CreatedBy(key_id=3, key_name="calendar"),
    stalled=False,
)
QUEUED = replace(FAILED, status=BotStatus.QUEUED, failure_code=None, ended_at=None)


MEDIA = {"progress", "last_media_at"}


@pytest.mark.parametrize(
    ("admitted", "absent"),
    [
        (AdmittedBot(bot=FAILED), {"queue_position", "estimated_wait_ms", "warning"} | MEDIA),
        (AdmittedBot(bot=QUEUED, position=3), {"estimated_wait_ms", "warning"} | MEDIA),
        (AdmittedBot(bot=QUEUED, position=3, estimated_wait_ms=0), MEDIA),
        (
            AdmittedBot(bot=QUEUED, position=3, estimated_wait_ms=0, progress={}, last_media_at=AT),
            set(),
        ),
    ],
)
def test_response_matches_the_documented_schema(admitted: AdmittedBot, absent: set[str]) -> None:
    promised = schemas.BotResponse(
        bot=schemas.Bot.of(admitted.bot),
        queue_position=admitted.position,
        estimated_wait_ms=admitted.estimated_wait_ms,
        progress=None if admitted.progress is None else dict(admitted.progress),
        last_media_at=admitted.last_media_at,
        warning=None if "warning" in absent else "The backend fails.",
    )
    answer = bot_response(admitted, status=200, warning=promised.warning)
    expected = promised.model_dump_json(by_alias=True, exclude=absent)
    assert bytes(answer.body).decode() == expected
