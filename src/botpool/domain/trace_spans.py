"""The spans of a bot, derived from its history.

    bot                                    from the request to the bot's end
      scheduled, queued                    before the bot has a slot
      attempt 1, attempt 2 (linked to 1)   one assignment, until its slot is released
        deploying                          with a child for each phase of the slot
          creating, waiting_for_image, waiting_for_start, starting, handing_over
        joining, waiting_room, in_call, leaving, finishing
        release                            until the stop of the container is confirmed

A span ends with one row of history, which tells when to write it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from botpool.domain.ids import BotId
from botpool.domain.states import FINAL, BotStatus, SlotPhase, SlotStatus
from botpool.domain.trace_context import TraceContext, span_id_of

KINDS = ("bot.status", "bot.phase", "slot.status", "slot.phase")
"""The kinds of history that begin or end spans."""

_OF_STATUS: Mapping[str, str] = {
    BotStatus.SCHEDULED: "scheduled",
    BotStatus.PENDING: "queued",
    BotStatus.QUEUED: "queued",
    BotStatus.DEPLOYING: "deploying",
    BotStatus.JOINING_CALL: "joining",
    BotStatus.IN_WAITING_ROOM: "waiting_room",
    BotStatus.IN_CALL: "in_call",
    BotStatus.LEAVING: "leaving",
    BotStatus.CALL_ENDED: "finishing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """A row of a bot's history, as far as its spans need it."""

    id: int
    at: datetime
    kind: str
    from_state: str | None
    to_state: str | None
    slot_name: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedBot:
    """A bot with the part of its history that begins and ends spans."""

    id: BotId
    pool_name: str
    tenant: str
    correlation_id: str
    trace: TraceContext
    rows: Sequence[TraceRow] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase of a bot that has ended."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    began_at: datetime
    ended_at: datetime
    ended_by: int
    """The row of history that ended the span."""
    links: tuple[str, ...] = ()
    """The spans of earlier attempts."""
    failure: str | None = None
    attributes: Mapping[str, str | int] = field(default_factory=dict, hash=False)


@dataclass(slots=True, kw_only=True)
class _Open:
    name: str
    span_id: str
    parent_id: str | None
    row: TraceRow
    links: tuple[str, ...] = ()


def spans_of(bot: TracedBot) -> list[Span]:
    """Return the spans of a bot that have ended, in the order of their ends."""
    return list(_Derivation(bot).run()) if bot.rows else []


class _Derivation:
    """Goes through the history of a bot with the spans that are open."""

    def __init__(self, bot: TracedBot) -> None:
        self._bot = bot
        self._root = self._open("bot", bot.rows[0], bot.trace.parent_span_id, whole=True)
        self._phase: _Open | None = None
        self._step: _Open | None = None
        self._unnamed_step: TraceRow | None = None
        self._release: _Open | None = None
        self._attempt: _Open | None = None
        self._attempts: list[str] = []

    def run(self) -> Iterator[Span]:
        for row in self._bot.rows:
            match row.kind:
                case "bot.status":
                    yield from self._on_status(row)
                case "bot.phase" if row.to_state == "finishing":
                    yield from self._begin_phase("finishing", row)
                case "slot.phase" if self._in_deployment and row.to_state in list(SlotPhase):
                    yield from self._on_slot_phase(row)
                case "slot.status":
                    yield from self._on_slot(row)

    def _on_status(self, row: TraceRow) -> Iterator[Span]:
        if row.to_state in FINAL:
            failed = row.reason if row.to_state == BotStatus.FAILED else None
            yield from self._end("_step", row, failed)
            yield from self._end("_phase", row, failed)
            yield self._span(self._root, row, failed, outcome=str(row.to_state))
            return
        name = _OF_STATUS.get(row.to_state or "")
        if name is not None:
            yield from self._begin_phase(name, row)

    def _begin_phase(self, name: str, row: TraceRow) -> Iterator[Span]:
        if self._phase is not None and self._phase.name == name:
            return
        failed = row.reason if self._in_deployment and name == "queued" else None
        yield from self._end("_step", row, failed)
        yield from self._end("_phase", row, failed)
        if name == "deploying":
            links = tuple(self._attempts[-1:])
            title = f"attempt {len(self._attempts) + 1}"
            self._attempt = self._open(title, row, self._root.span_id, links=links)
            self._attempts.append(self._attempt.span_id)
        outside = name in ("scheduled", "queued") or self._attempt is None
        parent = self._root if outside or self._attempt is None else self._attempt
        self._phase = self._open(name, row, parent.span_id)
        self._unnamed_step = row if name == "deploying" else None

    def _on_slot_phase(self, row: TraceRow) -> Iterator[Span]:
        """End a phase of the deployment; the first one is named by the row that ends it."""
        if self._unnamed_step is not None and row.from_state is not None:
            self._step = self._open(row.from_state, self._unnamed_step, self._parent_of_step)
            self._unnamed_step = None
        yield from self._end("_step", row)
        self._step = self._open(row.to_state or "", row, self._parent_of_step)

    def _on_slot(self, row: TraceRow) -> Iterator[Span]:
        if row.to_state == SlotStatus.RELEASING and self._attempt is not None:
            self._release = self._open("release", row, self._attempt.span_id)
        elif row.from_state == SlotStatus.RELEASING:
            yield from self._end("_release", row)
            yield from self._end("_attempt", row)

    @property
    def _in_deployment(self) -> bool:
        return self._phase is not None and self._phase.name == "deploying"

    @property
    def _parent_of_step(self) -> str | None:
        return None if self._phase is None else self._phase.span_id

    def _open(
        self,
        name: str,
        row: TraceRow,
        parent_id: str | None,
        *,
        whole: bool = False,
        links: tuple[str, ...] = (),
    ) -> _Open:
        span_id = span_id_of(self._bot.trace, self._bot.id, name, 0 if whole else row.id)
        return _Open(name=name, span_id=span_id, parent_id=parent_id, row=row, links=links)

    def _end(self, which: str, row: TraceRow, failure: str | None = None) -> Iterator[Span]:
        """End an open span, if there is one."""
        opened: _Open | None = getattr(self, which)
        if opened is not None:
            setattr(self, which, None)
            yield self._span(opened, row, failure)

    def _span(self, opened: _Open, row: TraceRow, failure: str | None, **more: str | int) -> Span:
        bot, slot_name = self._bot, opened.row.slot_name or row.slot_name
        attributes: dict[str, str | int] = {
            "botpool.bot_id": bot.id,
            "botpool.pool": bot.pool_name,
            "botpool.tenant": bot.tenant,
            "botpool.correlation_id": bot.correlation_id,
            "botpool.reason": row.reason,
        }
        if slot_name is not None:
            attributes["botpool.slot"] = slot_name
        if more:
            attributes |= {f"botpool.{name}": value for name, value in more.items()}
        return Span(
            trace_id=bot.trace.trace_id,
            span_id=opened.span_id,
            parent_id=opened.parent_id,
            name=opened.name,
            began_at=opened.row.at,
            ended_at=row.at,
            ended_by=row.id,
            links=opened.links,
            failure=failure,
            attributes=attributes,
        )
