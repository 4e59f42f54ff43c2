"""The cursor of a stream of changes: how far a client has read.

Ids are drawn before the commit, so a smaller id may become visible after a larger one was read. A
cursor that held only an id would lose that change. The stream is therefore read in ranges of
transactions, each up to a horizon below which all transactions have ended. Two transactions that
write the same row overlap, so they are always in one range; within a range, the ids give the order
of the changes. A cursor is a range and the last id of it that was read.

A restored database issues ids and transactions again. The cursor therefore names the epoch of the
database, by the first assignment id of that epoch, which no other epoch has.
"""

import re
from dataclasses import dataclass
from typing import Self

_FORM = re.compile(r"([0-9]{1,18})-([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A position in the stream of changes."""

    epoch: int
    """The database epoch of the transactions; cursors of another one are not comparable."""
    since: int
    """All changes of transactions below this one were read."""
    until: int
    """Of the transactions from `since` to below this one, changes up to `last_id` were read."""
    last_id: int

    @classmethod
    def at(cls, horizon: int, *, epoch: int) -> Self:
        """Return the cursor of a client that read everything below the horizon."""
        return cls(epoch=epoch, since=horizon, until=horizon, last_id=0)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the text form of a cursor; None for any other text."""
        if (found := _FORM.fullmatch(text)) is None:
            return None
        epoch, since, until, last_id = (int(part) for part in found.groups())
        if since > until:
            return None
        return cls(epoch=epoch, since=since, until=until, last_id=last_id)

    def has_read(self, *, transaction: int, change_id: int) -> bool:
        """Whether the client has read this change."""
        return transaction < self.since or (transaction < self.until and change_id <= self.last_id)

    def __str__(self) -> str:
        return f"{self.epoch}-{self.since}-{self.until}-{self.last_id}"
