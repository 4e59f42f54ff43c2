"""Bots as admission creates them: the request plus the columns that the statement decided."""

from botpool.domain.agent_views import Handover
from botpool.domain.bots import AdmissionRequest, Bot, CreatedBy
from botpool.store.queue import ClaimedSlot, SettledBot


def new_bot(request: AdmissionRequest, created: ClaimedSlot | SettledBot) -> Bot:
    """Return the bot of a request, without reading it from the database again."""
    bot = request.bot
    return Bot(
        id=created.bot_id,
        correlation_id=bot.correlation_id,
        pool_name=bot.pool_name,
        meeting_url=bot.meeting_url,
        bot_display_name=bot.bot_display_name,
        status=created.status,
        priority=bot.priority,
        slot_name=created.slot_name,
        container_id=created.container_id,
        attempts=created.attempts,
        failure_reason=None,
        failure_code=None,
        end_reason=None,
        artifact_count=0,
        created_at=created.created_at,
        queued_at=created.queued_at,
        assigned_at=created.assigned_at,
        started_at=None,
        last_heartbeat_at=None,
        finishing_at=None,
        ended_at=None,
        tenant=bot.caller.tenant,
        created_by=CreatedBy(key_id=bot.caller.key_id, key_name=bot.caller.key_name),
        stalled=False,
    )


def new_handover(slot: ClaimedSlot, request: AdmissionRequest) -> Handover:
    """Return what the agent of a standby needs for its new bot."""
    assert slot.standby_run_id is not None and slot.container_id is not None
    bot = request.bot
    return Handover(
        slot_id=slot.slot_id,
        run_id=slot.standby_run_id,
        assignment_id=slot.assignment_id,
        container_id=slot.container_id,
        pool_name=bot.pool_name,
        bot_id=slot.bot_id,
        correlation_id=bot.correlation_id,
        traceparent=bot.traceparent,
        meeting_url=bot.meeting_url,
        bot_display_name=bot.bot_display_name,
        bot_data=bot.bot_data,
    )
