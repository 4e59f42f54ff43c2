"""The calls of Meeboter's bots, each translated to the agent's call that has its effect.

A call that cannot be translated raises `TrpcError` and changes nothing. The calls that the bot
repeats count as heartbeats: it sends no heartbeats any more once it was asked to leave.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botpool.api.meeboter.bot_config import bot_config, log_level, user_id
from botpool.api.meeboter.superjson import UNDEFINED
from botpool.api.meeboter.trpc import TrpcError
from botpool.api.opaque_json import require_storable
from botpool.api.patterns import EVENT_KIND, PRINTABLE
from botpool.domain.agent_views import AgentView
from botpool.domain.bot_data import ArtifactKind, NewArtifact
from botpool.domain.errors import LimitExceeded
from botpool.domain.heartbeat import AgentPhase, HeartbeatReport
from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.states import FINAL, BotStatus
from botpool.engine.replica import Replica

_STATUSES = {
    "JOINING_CALL": BotStatus.JOINING_CALL,
    "IN_WAITING_ROOM": BotStatus.IN_WAITING_ROOM,
    "IN_CALL": BotStatus.IN_CALL,
    "CALL_ENDED": BotStatus.CALL_ENDED,
    "DONE": BotStatus.DONE,
    "FATAL": BotStatus.FAILED,
}
_NO_STATUS = ("CREATED", "DEPLOYING", "LEAVING")
"""Statuses of Meeboter that say nothing about the bot that Botpool does not know."""
_MEEBOTER_STATUS = {BotStatus.FAILED: "FATAL", BotStatus.CANCELLED: "DONE"}
_LOGGED_LEVELS = ("ERROR", "FATAL")
_MAX_LOG_EVENTS = 20
_MAX_ENTRIES = 10_000
_MAX_EVENT_BYTES = 8 * 1024
_MAX_REASON = 2000
_MAX_CUT = 1000
_TIMEFRAMES_PER_EVENT = 50
_MAX_TIMEFRAME_EVENTS = 20
_FATAL = "fatal"
_PRECONDITION_FAILED = "PRECONDITION_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The bot's agent, by the token of its assignment."""

    replica: Replica
    assignment_id: AssignmentId

    async def view(self, bot_id: BotId) -> AgentView:
        """Return the agent's own bot; the call proves that its container runs."""
        view = await self.replica.agents.called(self.assignment_id, bot_id)
        if view is None:
            raise await self.finished(bot_id)
        return view

    async def finished(self, bot_id: BotId) -> TrpcError:
        """Return the error that lets a bot exit whose assignment has ended.

        The bot looks for the name of the code in the message.
        """
        own = await self.replica.agents.find_own(self.assignment_id, bot_id)
        status = BotStatus.DONE if own is None else own.bot.status
        return TrpcError(
            _PRECONDITION_FAILED,
            f"{_PRECONDITION_FAILED}: Bot {bot_id} has already finished (status: "
            f"{_meeboter_status(status)}). Container should exit.",
        )


async def get_config(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.getConfig`: the configuration of a bot, by its id."""
    view = await caller.view(_bot_id(sent, "botId"))
    return bot_config(view, max_duration_s=caller.replica.policy.max_duration_s)


async def get_slot(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`infrastructure.coolify.pool.getSlot`: the configuration of the bot in a container."""
    container_id = sent.get("poolSlotUuid")
    if not isinstance(container_id, str) or not 1 <= len(container_id) <= 255:
        raise TrpcError("BAD_REQUEST", "poolSlotUuid is missing or is no text")
    agents = caller.replica.agents
    view, released = await agents.identify(caller.assignment_id, ContainerId(container_id))
    if released:
        raise await caller.finished(view.bot.id)
    return bot_config(view, max_duration_s=caller.replica.policy.max_duration_s)


async def send_heartbeat(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.sendHeartbeat`: whether the bot must leave, and its log level."""
    bot_id = _bot_id(sent, "id")
    agents = caller.replica.agents
    instructions = await agents.heartbeat(caller.assignment_id, bot_id)
    if instructions.should_leave and not instructions.should_exit:
        # The bot leaves and sends no heartbeat any more: it saves its recording from now on.
        finishing = HeartbeatReport(phase=AgentPhase.FINISHING)
        await agents.heartbeat(caller.assignment_id, bot_id, finishing)
    own = await agents.find_own(caller.assignment_id, bot_id)
    return {"shouldLeave": instructions.should_leave, "logLevel": log_level(own)}


async def report_event(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.events.report`: adds an event to the bot's history.

    The event FATAL carries the reason for which the status FATAL follows.
    """
    bot_id = _bot_id(sent, "id")
    event = sent.get("event")
    kind = event.get("eventType") if isinstance(event, dict) else None
    if not isinstance(kind, str) or not re.fullmatch(EVENT_KIND, kind) or len(kind) > 64:
        raise TrpcError("BAD_REQUEST", "event.eventType is missing or is no name")
    assert isinstance(event, dict)
    data = event.get("data")
    details = data if isinstance(data, dict) else {}
    await _record(
        caller, bot_id, [(kind.lower(), {**details, "eventTime": event.get("eventTime")})]
    )
    return UNDEFINED


async def update_status(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.updateStatus`: reports a status; DONE may name the recording and the speakers."""
    bot_id = _bot_id(sent, "id")
    name = sent.get("status")
    if name not in _STATUSES and name not in _NO_STATUS:
        raise TrpcError("BAD_REQUEST", f"status: must be one of {', '.join(_STATUSES)}")
    agents, assignment_id = caller.replica.agents, caller.assignment_id
    if name in _STATUSES:
        status, reason = _STATUSES[name], None
        if status in FINAL:
            await _record_results(caller, bot_id, sent)
        if status is BotStatus.FAILED:
            described = (await agents.last_event(assignment_id, _FATAL)).get("description")
            reason = described[:_MAX_REASON] if isinstance(described, str) else None
        await agents.report(assignment_id, bot_id, status, reason)
    own = await agents.find_own(assignment_id, bot_id)
    if own is None:
        raise await caller.finished(bot_id)
    bot = own.bot
    return {
        "id": bot.id,
        "displayName": bot.bot_display_name,
        "status": _meeboter_status(bot.status),
        "createdAt": bot.created_at,
    }


async def dequeue_message(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.chat.dequeueMessage`: the next command of kind `chat`, only during the call.

    The bot acknowledges nothing: a message that was handed out is not handed out again.
    """
    view = await caller.view(_bot_id(sent, "botId"))
    await caller.replica.heartbeats.record(caller.assignment_id, view.bot.id)
    if view.bot.status is not BotStatus.IN_CALL:
        return None
    command = await caller.replica.bot_commands.take(caller.assignment_id, "chat")
    if command is None:
        return None
    text = command.data.get("text", command.data.get("messageText", ""))
    template = command.data.get("templateId")
    return {
        "messageText": text if isinstance(text, str) else json.dumps(text),
        "templateId": UNDEFINED if template is None else template,
        "userId": command.data.get("userId", user_id(view)),
    }


async def stream_logs(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.logs.stream`: counts log entries and adds the errors among them to the history.

    Botpool reads the bot's whole log from the container's output.
    """
    bot_id = _bot_id(sent, "botId")
    entries = sent.get("entries")
    if not isinstance(entries, list) or len(entries) > _MAX_ENTRIES:
        raise TrpcError("BAD_REQUEST", f"entries: must be a list of at most {_MAX_ENTRIES}")
    if not all(isinstance(entry, dict) for entry in entries):
        raise TrpcError("BAD_REQUEST", "entries: must be a list of objects")
    view = await caller.view(bot_id)
    await caller.replica.heartbeats.record(caller.assignment_id, view.bot.id)
    errors = [entry for entry in entries if entry.get("level") in _LOGGED_LEVELS]
    if errors:
        events = [("log", entry) for entry in errors[:_MAX_LOG_EVENTS]]
        with suppress(LimitExceeded):
            await _record(caller, bot_id, events)
    return {"received": len(entries)}


async def flush_logs(caller: Caller, sent: Mapping[str, Any]) -> Any:
    """`bots.logs.flush`: nothing waits to be written."""
    await caller.view(_bot_id(sent, "botId"))
    return {"success": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    run: Callable[[Caller, Mapping[str, Any]], Awaitable[Any]]
    is_query: bool = False


PROCEDURES = {
    "bots.getConfig": Procedure(run=get_config, is_query=True),
    "infrastructure.coolify.pool.getSlot": Procedure(run=get_slot, is_query=True),
    "bots.sendHeartbeat": Procedure(run=send_heartbeat),
    "bots.events.report": Procedure(run=report_event),
    "bots.updateStatus": Procedure(run=update_status),
    "bots.chat.dequeueMessage": Procedure(run=dequeue_message, is_query=True),
    "bots.logs.stream": Procedure(run=stream_logs),
    "bots.logs.flush": Procedure(run=flush_logs),
}


def _bot_id(sent: Mapping[str, Any], name: str) -> BotId:
    """Return the id of a bot, which clients send as a number or as text."""
    found = sent.get(name)
    if type(found) is int:
        found = str(found)
    if not isinstance(found, str) or not re.fullmatch("[0-9]{1,18}", found, re.ASCII):
        raise TrpcError("BAD_REQUEST", f"{name}: is missing or is no id of a bot")
    return BotId(int(found))


def _meeboter_status(status: BotStatus) -> str:
    return _MEEBOTER_STATUS.get(status, status.value)


async def _record(caller: Caller, bot_id: BotId, events: list[tuple[str, Any]]) -> None:
    await caller.replica.agents.record(
        caller.assignment_id, bot_id, [(kind, _fitting(data)) for kind, data in events]
    )


def _fitting(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of an event; a text in place of data that is too large or unstorable."""
    try:
        return require_storable(dict(data), _MAX_EVENT_BYTES)
    except ValueError:
        described = data.get("description") or data.get("message")
        text = described if isinstance(described, str) else "data that cannot be stored"
        kept = text[:_MAX_CUT].replace("\x00", "").encode("utf-8", "replace").decode()
        return {"description": kept, "isCut": True}


async def _record_results(caller: Caller, bot_id: BotId, sent: Mapping[str, Any]) -> None:
    """List the recording as an artifact, and add the speakers to the history."""
    recording = sent.get("recording")
    if isinstance(recording, str) and recording:
        if len(recording) > 2048 or not re.fullmatch(PRINTABLE, recording):
            raise TrpcError("BAD_REQUEST", "recording: is no key of a file")
        artifact = NewArtifact(kind=ArtifactKind.RECORDING, location=recording)
        await caller.replica.agent_data.record_artifacts(caller.assignment_id, bot_id, [artifact])
    speakers = sent.get("speakerTimeframes")
    if isinstance(speakers, list) and speakers:
        parts = range(0, len(speakers), _TIMEFRAMES_PER_EVENT)
        events = [
            ("speaker_timeframes", {"timeframes": speakers[at : at + _TIMEFRAMES_PER_EVENT]})
            for at in parts[:_MAX_TIMEFRAME_EVENTS]
        ]
        # The end of the bot matters more than its speakers.
        with suppress(LimitExceeded):
            await _record(caller, bot_id, events)
