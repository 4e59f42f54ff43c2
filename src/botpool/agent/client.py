"""The agent: the container's side of the agent API, as an asynchronous context manager."""

import asyncio
import json
import logging
import os
import secrets
from collections.abc import Iterable, Mapping, MutableMapping
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from .backoff import Backoff, until_answered
from .bot import Bot, Identity
from .commands import CommandCallback, Commands
from .environment import read_environment
from .errors import AgentError, Refused, Released, Unavailable
from .heartbeat import HeartbeatBody, keep_heartbeat
from .instructions import Instructions, LeaveCallback
from .join_time import JoinTime
from .outbox import Outbox
from .self_fence import SelfFence
from .sigterm import wait_for_sigterm
from .standby import POLL_RETRY_CAP_S, POLL_RETRY_S, POLL_S, wait_for_assignment
from .status import FAILURES, FINAL, Status, end_of
from .transport import Transport

log = logging.getLogger(__name__)

REASON_LENGTH = 1000
PERMISSION_LIMIT_S = 2.0
"""How long a scheduled bot waits at its time for the permission to join."""


class Agent:
    """Runs one bot's assignment: identity, heartbeats, reports and the end.

    Entering the context requests the container's identity and retries until the control plane
    answers. It raises `Released` when the assignment has already ended, so that the bot never
    joins, and another `AgentError` when a retry cannot help. Leaving the context reports DONE or
    FAILED unless the bot has reported its end; after a release it reports nothing.

    Where the backend restarts every container that ends (`wait_for_stop_s`), the agent then waits
    for SIGTERM, so that the container does not start again before Botpool has stopped it.

    A scheduled bot (`bot.join_at`) waits until its time: entering the context returns when the bot
    may join. With `wait_to_join=False` the program prepares itself first and then calls
    `await agent.wait_until_join()`.
    """

    def __init__(
        self,
        *,
        url: str,
        container_id: str,
        token: str,
        correlation_id: str | None = None,
        timeout_s: float = 10.0,
        final_report_limit_s: float = 900.0,
        wait_for_stop_s: float = 0.0,
        self_fence_s: float = 0.0,
        wait_to_join: bool = True,
        on_standby: bool = False,
        backoff: Backoff | None = None,
    ) -> None:
        """Create the agent; with `on_standby`, `token` is the token of a standby."""
        self._url = url
        self._timeout_s = timeout_s
        self._on_standby = on_standby
        self._environ: MutableMapping[str, str] | None = None
        self.final_report_limit_s = final_report_limit_s
        """How long leaving the context waits for the delivery of reports."""
        self.wait_for_stop_s = wait_for_stop_s
        """How long the agent waits for SIGTERM after its end; 0 if nothing restarts containers."""
        self.self_fence_s = self_fence_s
        """How long the bot stays without an answer of Botpool to a heartbeat; 0 means forever."""
        self._fence: SelfFence | None = None
        self._waits_to_join = wait_to_join
        self._join_time = JoinTime()
        self.boot_id = secrets.token_hex(16)
        """Distinguishes this start from a restart of the container within the same assignment."""
        self._transport = Transport(url, token, correlation_id=correlation_id, timeout_s=timeout_s)
        self._container_id = container_id
        self._token = token
        self._backoff = backoff or Backoff()
        self._instructions = Instructions()
        self._commands = Commands()
        self._heartbeat = HeartbeatBody(self._commands)
        self._identity: Identity | None = None
        self._outbox: Outbox | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._end_reported = False
        self._stops_itself = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ, **options: Any) -> Self:
        """Create the agent of this container; `options` are those of `Agent`.

        In a container that runs before it has a bot, entering the context waits for the bot, and
        then sets the variables of the bot in `environ`.
        """
        agent = cls(**(read_environment(environ) | options))
        agent._environ = environ if isinstance(environ, MutableMapping) else None
        return agent

    @property
    def bot(self) -> Bot:
        return self._required_identity.bot

    @property
    def bot_data(self) -> dict[str, Any]:
        """The `botData` of the request for the bot."""
        return self._required_identity.bot_data

    @property
    def released(self) -> bool:
        return self._instructions.exit_requested.is_set()

    @property
    def leave_requested(self) -> asyncio.Event:
        """Set when the bot must leave the meeting, report CALL_ENDED and leave the context."""
        return self._instructions.leave_requested

    @property
    def exit_requested(self) -> asyncio.Event:
        """Set when the slot was released and the bot must stop at once."""
        return self._instructions.exit_requested

    def on_leave(self, callback: LeaveCallback) -> None:
        """Call `callback` (plain or async) once when the bot must leave.

        An async callback that still runs when the context is left is cancelled.
        """
        self._instructions.on_leave(callback)

    def leave(self) -> None:
        """Request the leave from inside the container, for example in a SIGTERM handler.

        The agent then does not wait for a stop after its last report.
        """
        self._stops_itself = True
        self._instructions.leave()

    async def report(
        self, status: str, *, reason: str | None = None, end_reason: str | None = None
    ) -> None:
        """Report a status; FAILED takes a readable reason.

        `end_reason` says why the call ended, with CALL_ENDED, DONE or FAILED: denied,
        lobby_timeout, removed, alone, meeting_ended, sign_in_required, blocked, left or unknown.

        Returns at once. Delivery continues in the background, in order, and survives outages.
        """
        known = Status(status)
        if reason is not None and known not in FAILURES:
            raise ValueError(f"a reason goes with FAILED, not with {known}")
        self._report(known, reason, end_reason)

    def finishing(self) -> None:
        """Tell that the bot has left the call and saves its recording.

        A report of CALL_ENDED says the same. Botpool then grants the pool's `finish_timeout_s`,
        which starts again whenever `progress` changes.
        """
        self._has_left()
        self._heartbeat.finishing()

    def progress(self, **figures: Any) -> None:
        """Set the progress that the next heartbeats carry, such as `bytesUploaded=1024`."""
        self._heartbeat.progress(figures)

    def media(self) -> None:
        """Tell with the next heartbeats that the bot recorded audio or video just now.

        Call it at least every few seconds while the bot records: a bot that is in the call and
        records nothing counts as stalled where the pool has `stalled_after_s`.
        """
        self._heartbeat.media()

    def on_command(self, callback: CommandCallback) -> None:
        """Call `callback` (plain or async) with each command to the bot, in order, once each.

        The agent acknowledges a command when the callback has ended. Without a callback it
        acknowledges none.
        """
        self._commands.on_command(callback)

    async def artifact(
        self,
        kind: str,
        location: str,
        *,
        size_bytes: int | None = None,
        content_type: str | None = None,
    ) -> None:
        """List a file that the bot made; delivered like a status.

        `kind`: recording, transcript, speakers, log or other. `location`: the file's address, or
        its key in the bot's storage.
        """
        self._pending_reports.put_artifact(kind, location, size_bytes, content_type)

    async def screenshot(self, picture: bytes, note: str = "") -> bool:
        """Send a screenshot (PNG, JPEG or WebP, at most 512 KiB); False if that failed.

        Botpool keeps the last three. A failure is logged and never ends the meeting.
        """
        path = f"/v1/agent/bots/{self.bot.id}/screenshots?note={quote(note[:200], safe='')}"
        try:
            answer = await self._transport.call("POST", path, picture)
        except (Refused, Unavailable) as error:
            log.warning("A screenshot was not sent. %s", error)
            return False
        return answer.get("screenshot") is not None

    async def event(self, kind: str, data: Mapping[str, Any] | None = None) -> None:
        """Add an event to the bot's history; delivered like a status, at least once."""
        self._pending_reports.put_event(kind, data or {})

    async def events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add several events, each `{"kind": ..., "data": {...}}`."""
        for event in events:
            await self.event(event["kind"], event.get("data"))

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all reports are delivered; return False on timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._pending_reports.drained()
        except TimeoutError:
            return False
        return True

    async def __aenter__(self) -> Self:
        if self._on_standby:
            await self._wait_for_bot()
        path = f"/v1/agent/slot?containerId={quote(self._container_id, safe='')}"
        path += f"&bootId={self.boot_id}"
        identify = partial(self._transport.call, "GET", path)
        identity = Identity.from_json(await until_answered(identify, self._backoff))
        bot_id = identity.bot.id
        self._identity = identity
        self._transport.correlation_id = identity.bot.correlation_id
        if identity.released:
            self._instructions.exit()
            await self._wait_for_stop(None)
            raise Released(bot_id)
        self._outbox = Outbox(self._transport, bot_id, self._backoff)
        heartbeat = keep_heartbeat(
            self._transport, bot_id, identity.heartbeat_interval_s, self._heartbeat, self._apply
        )
        self._tasks = [asyncio.create_task(heartbeat), asyncio.create_task(self._outbox.run())]
        if self.self_fence_s:
            self._fence = SelfFence(self.self_fence_s)
            self._tasks.append(asyncio.create_task(self._fence.keep(self._instructions.leave)))
        if identity.join_in_ms is not None:
            self._join_time.set(identity.join_in_ms)
            if self._waits_to_join:
                try:
                    await self.wait_until_join()
                except BaseException as error:
                    await self.__aexit__(type(error), error, None)
                    raise
        return self

    async def wait_until_join(self) -> None:
        """Wait until a scheduled bot may join; returns at once for any other bot.

        At its time the agent asks the control plane for permission. The answer may be a new time.
        Without an answer for 2 s, the bot joins. Raises `Released` if the bot was cancelled, and
        `AgentError` if the container is stopped meanwhile.
        """
        if self._required_identity.join_in_ms is None:
            return
        while True:
            if not await self._join_time.wait(self.leave_requested):
                if self.released:
                    raise Released(self.bot.id)
                raise AgentError("The container was stopped before the bot's join time.")
            answer = await self._ask_to_join()
            if answer.get("shouldExit"):
                self._apply(answer)
            elif answer.get("applied", True) or answer.get("joinInMs") is None:
                return
            else:
                self._join_time.set(answer["joinInMs"])

    async def _ask_to_join(self) -> Mapping[str, Any]:
        """Report JOINING_CALL and return the answer; empty if there is none in time."""
        path, text = f"/v1/agent/bots/{self.bot.id}/status", json.dumps({"status": "JOINING_CALL"})
        try:
            call = self._transport.call("POST", path, text)
            return await asyncio.wait_for(call, PERMISSION_LIMIT_S)
        except (TimeoutError, Unavailable, Refused) as error:
            log.warning("No permission to join came in time; the bot joins. %s", error)
            self._report(Status.JOINING_CALL, None)
            return {}

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._end_reported and not isinstance(error, Released):
                self._report(*end_of(error))
            # Heartbeats continue meanwhile, so that Botpool does not count the bot as lost.
            await self.flush(self.final_report_limit_s)
            await self._wait_for_stop(error)
            if len(self._pending_reports):
                log.warning(
                    "Dropped %d reports that could not be delivered.", len(self._pending_reports)
                )
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(
                *self._tasks,
                self._commands.close(),
                self._instructions.close(),
                return_exceptions=True,
            )

    async def _wait_for_bot(self) -> None:
        """Wait on standby until Botpool hands a bot over, and continue as this bot's agent."""
        standby = Transport(
            self._url, self._token, correlation_id=None, timeout_s=POLL_S + self._timeout_s
        )
        backoff = Backoff(first_s=POLL_RETRY_S, cap_s=POLL_RETRY_CAP_S)
        assignment = await wait_for_assignment(standby, self.boot_id, POLL_S, backoff)
        if assignment is None:
            self._instructions.exit()
            await self._wait_for_stop(None)
            raise Released(None)
        if self._environ is not None:
            self._environ.update(assignment["environment"])
        self._on_standby = False
        self._token = str(assignment["token"])
        self._transport = Transport(
            self._url, self._token, correlation_id=None, timeout_s=self._timeout_s
        )

    async def _wait_for_stop(self, error: BaseException | None) -> None:
        """Wait for SIGTERM unless it has arrived, as a cancellation or an exit of the bot shows."""
        is_stopping = error is not None and not isinstance(error, Exception)
        if self.wait_for_stop_s and not is_stopping and not self._stops_itself:
            await wait_for_sigterm(self.wait_for_stop_s)

    def _report(self, status: Status, reason: str | None, end_reason: str | None = None) -> None:
        if reason is not None:
            reason = reason.replace(self._token, "***")[:REASON_LENGTH]
        self._pending_reports.put_status(status, reason, end_reason)
        self._end_reported = self._end_reported or status in FINAL
        if status is Status.CALL_ENDED or status in FINAL:
            self._has_left()

    def _has_left(self) -> None:
        if self._fence is not None:
            self._fence.left()

    def _apply(self, answer: Mapping[str, Any]) -> None:
        if self._fence is not None:
            self._fence.answered()
        self._commands.receive(answer)
        if answer.get("shouldExit"):
            self._pending_reports.close()
            self._instructions.exit()
        elif answer.get("shouldLeave"):
            self._instructions.leave()
        elif answer.get("joinInMs") is not None:
            self._join_time.set(answer["joinInMs"])

    @property
    def _required_identity(self) -> Identity:
        assert self._identity is not None, "the agent is used as `async with`"
        return self._identity

    @property
    def _pending_reports(self) -> Outbox:
        assert self._outbox is not None, "the agent is used as `async with`"
        return self._outbox
