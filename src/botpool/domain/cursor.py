"""How far a stream of changes was read, safe against transactions that commit late.

Ids are given out before a commit, so a smaller one may appear after a larger one was read: a
cursor that is an id alone loses it. A stream is therefore read in ranges of transactions, each up
to a horizon below which all of them are over. Two that wrote the same row overlap, so they are
always in one range; within it the ids give the order in which things happened. A place in the
stream is a range and the last id of it that was read.
"""

import re
from dataclasses import dataclass
from typing import Self

_FORM = re.compile(r"([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    since: int
    """Every change of a transaction before this one was read."""
    until: int
    """Of the transactions from `since` to before this one, those up to `seen` were read."""
    seen: int

    @classmethod
    def at(cls, horizon: int) -> Self:
        """Everything below the horizon was read."""
        return cls(since=horizon, until=horizon, seen=0)

    @classmethod
    def read_from(cls, text: str) -> Self | None:
        """A cursor as we wrote it; None for anything else."""
        if (found := _FORM.fullmatch(text)) is None:
            return None
        since, until, seen = (int(part) for part in found.groups())
        return cls(since=since, until=until, seen=seen) if since <= until else None

    def has_read(self, *, transaction: int, change_id: int) -> bool:
        return transaction < self.since or (transaction < self.until and change_id <= self.seen)

    def __str__(self) -> str:
        return f"{self.since}-{self.until}-{self.seen}"
