"""The agent: one container's side of the agent API, as an asynchronous context."""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from .backoff import Backoff, until_answered
from .bot import Bot, Identity
from .environment import Environment
from .errors import Released
from .heartbeat import keep_heartbeat
from .orders import LeaveCallback, Orders
from .outbox import Outbox
from .status import FAILURES, FINAL, Status, end_of
from .transport import Transport

log = logging.getLogger(__name__)

REASON_LENGTH = 1000


class Agent:
    """Entering asks who this container is, for as long as it takes to get an answer.

    Raises `Released` when the assignment is over already, so that the body, and with it the
    meeting, is never entered; and another `AgentError` for what waiting cannot mend. Leaving
    reports DONE or FAILED unless the bot did, and nothing once the slot was released.
    """

    def __init__(
        self,
        *,
        url: str,
        container_id: str,
        token: str,
        correlation_id: str | None = None,
        timeout_s: float = 10.0,
        final_report_limit_s: float = 60.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.final_report_limit_s = final_report_limit_s
        """How long leaving the context may wait for reports to be answered."""
        self._transport = Transport(url, token, correlation_id=correlation_id, timeout_s=timeout_s)
        self._container_id = container_id
        self._token = token
        self._backoff = backoff or Backoff()
        self._orders = Orders()
        self._identity: Identity | None = None
        self._outbox: Outbox | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._end_reported = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ, **options: Any) -> Self:
        """The agent of this container; `options` are those of `Agent`."""
        found = Environment.read(environ)
        return cls(
            url=found.url,
            container_id=found.container_id,
            token=found.token,
            correlation_id=found.correlation_id,
            **options,
        )

    @property
    def bot(self) -> Bot:
        return self._known.bot

    @property
    def bot_data(self) -> dict[str, Any]:
        """The `botData` of whoever asked for the bot."""
        return self._known.bot_data

    @property
    def released(self) -> bool:
        return self._orders.exit_requested.is_set()

    @property
    def leave_requested(self) -> asyncio.Event:
        """Leave the meeting, report CALL_ENDED, and leave the context."""
        return self._orders.leave_requested

    @property
    def exit_requested(self) -> asyncio.Event:
        """The slot was released: stop at once. Sets `leave_requested` too."""
        return self._orders.exit_requested

    def on_leave(self, callback: LeaveCallback) -> None:
        """Call `callback` (plain or async) once when the bot must leave.

        An async one that still runs when the context is left is cancelled.
        """
        self._orders.on_leave(callback)

    def leave(self) -> None:
        """Ask the bot to leave from inside, as a handler of SIGTERM does."""
        self._orders.leave()

    async def report(self, status: str, *, reason: str | None = None) -> None:
        """Report a status; FAILED with a reason that people can read.

        Returns at once: delivery goes on behind it, in order, through any outage.
        """
        known = Status(status)
        if reason is not None and known not in FAILURES:
            raise ValueError(f"a reason goes with FAILED, not with {known}")
        self._report(known, reason)

    async def event(self, kind: str, data: Mapping[str, Any] | None = None) -> None:
        """Put something into the bot's history; delivered like a status, at least once."""
        self._mail.put_event(kind, data or {})

    async def events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Several events, each `{"kind": ..., "data": {...}}`."""
        for event in events:
            await self.event(event["kind"], event.get("data"))

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all reports were answered; False if that took longer than the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._mail.drained()
        except TimeoutError:
            return False
        return True

    async def __aenter__(self) -> Self:
        path = f"/v1/agent/slot?containerId={quote(self._container_id, safe='')}"
        identify = partial(self._transport.call, "GET", path)
        identity = Identity.from_json(await until_answered(identify, self._backoff))
        bot_id = identity.bot.id
        self._identity = identity
        self._transport.correlation_id = identity.bot.correlation_id
        if identity.released:
            self._orders.exit()
            raise Released(bot_id)
        self._outbox = Outbox(self._transport, bot_id, self._backoff)
        heartbeat = keep_heartbeat(
            self._transport, bot_id, identity.heartbeat_interval_s, self._obey
        )
        self._tasks = [asyncio.create_task(heartbeat), asyncio.create_task(self._outbox.run())]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._end_reported and not isinstance(error, Released):
                self._report(*end_of(error))
            # The heartbeat goes on meanwhile: a bot that waits to say DONE is not a lost one.
            if not await self.flush(self.final_report_limit_s):
                log.warning("Gave up on %d reports at the end.", len(self._mail))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, self._orders.close(), return_exceptions=True)

    def _report(self, status: Status, reason: str | None) -> None:
        if reason is not None:
            reason = reason.replace(self._token, "***")[:REASON_LENGTH]
        self._mail.put_status(status, reason)
        self._end_reported = self._end_reported or status in FINAL

    def _obey(self, answer: Mapping[str, Any]) -> None:
        if answer.get("shouldExit"):
            self._mail.close()
            self._orders.exit()
        elif answer.get("shouldLeave"):
            self._orders.leave()

    @property
    def _known(self) -> Identity:
        assert self._identity is not None, "the agent is used as `async with`"
        return self._identity

    @property
    def _mail(self) -> Outbox:
        assert self._outbox is not None, "the agent is used as `async with`"
        return self._outbox
