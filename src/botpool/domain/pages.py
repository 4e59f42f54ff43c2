"""Pages of lists, and the positions at which a next page begins.

A position names the last record of a page by the columns that order the list. Records that appear
or disappear between two pages therefore neither repeat nor hide others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from botpool.domain.ids import AssignmentId, BotId, PoolName

T = TypeVar("T")
P = TypeVar("P")


class BotPosition(NamedTuple):
    """A bot in the list of all bots, newest first."""

    bot_id: BotId


class AssignmentPosition(NamedTuple):
    """An assignment in the list of a slot or a container, newest first."""

    assignment_id: AssignmentId


class EventPosition(NamedTuple):
    """A row in the history of a bot, oldest first."""

    history_id: int


class NewestEventPosition(NamedTuple):
    """A row in the history of a bot, newest first."""

    history_id: int


class SlotEventPosition(NamedTuple):
    """A row in the history of a slot, newest first, and the oldest assignment so far."""

    history_id: int
    assignment_id: AssignmentId


class CommandPosition(NamedTuple):
    """A command to a bot, oldest first."""

    command_id: int


class QueuePosition(NamedTuple):
    """A queued bot in the order of service, by pool."""

    pool_name: PoolName
    priority: int
    arrival: int


class SlotPosition(NamedTuple):
    """A slot, by pool and number."""

    pool_name: PoolName
    number: int


class AuditPosition(NamedTuple):
    """A row of the audit log, newest first."""

    audit_id: int


class DeliveryPosition(NamedTuple):
    """A delivery of a webhook, newest first."""

    delivery_id: int


Position: TypeAlias = (
    BotPosition
    | AssignmentPosition
    | EventPosition
    | NewestEventPosition
    | SlotEventPosition
    | CommandPosition
    | QueuePosition
    | SlotPosition
    | AuditPosition
    | DeliveryPosition
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T, P]):
    """Some records of a list; `next` is where the next page begins, None on the last page.

    A page can be shorter than its limit, or empty, and still have a next page: a search covers a
    limited range of ids, and a page of history a limited number of bytes.
    """

    items: Sequence[T]
    next: P | None
