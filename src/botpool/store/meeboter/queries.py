"""The statements of the import, each in a file of its own in `sql/`."""

from botpool.domain.ids import BotId
from botpool.domain.meeboter import MeeboterBot, MeeboterSlot
from botpool.store.meeboter.views import Column
from botpool.store.query import query


@query
def list_columns(*, table: str) -> list[Column]:
    """List the columns of a table; none if there is no such table."""


@query
def list_meeboter_slots() -> list[MeeboterSlot]:
    """List all slots with the statuses of their bots."""


@query
def list_queued_bots() -> list[MeeboterBot]:
    """List the queued bots that have not ended, in the order of the queue."""


@query
def has_moved_bots() -> bool:
    """Tell whether an earlier import has created the table of moved bots."""


@query
def create_moved_bots() -> None:
    """Create the table of bots that were taken off Meeboter's queue."""


@query
def list_moving_bots() -> list[MeeboterBot]:
    """List the bots that an interrupted import took off the queue but did not create in Botpool."""


@query
def take_queued_bot(*, bot_id: int) -> list[MeeboterBot]:
    """Take a bot off Meeboter's queue and keep it as a moving bot."""


@query
def finish_bot_move(*, bot_id: int, botpool_bot_id: BotId) -> None:
    """Record the bot that Botpool created for a moving bot."""


@query
def claim_meeboter_slot(*, slot_id: int, status: str) -> list[int]:
    """Take a slot without a live bot away from Meeboter."""


@query
def delete_meeboter_slot(*, slot_id: int) -> None:
    """Delete the row of a duplicate whose application is gone."""
