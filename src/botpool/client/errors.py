"""What can go wrong between a program and Botpool. No message holds the key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botpool.domain.errors import BotpoolError

if TYPE_CHECKING:
    from botpool.client.records import Bot


class ClientError(BotpoolError):
    """The base of everything that the client raises."""


@dataclass(eq=False)
class Unreachable(ClientError):
    """No answer, however often it was tried. Whether the last call was carried out is unknown."""

    url: str
    problem: str

    def __str__(self) -> str:
        return f"Botpool at {self.url} does not answer: {self.problem}"


@dataclass(eq=False)
class Refused(ClientError):
    """The server said no, in its own words."""

    status: int
    detail: str

    def __str__(self) -> str:
        return self.detail


class Unauthorized(Refused):
    """The key is unknown, revoked, or was not sent."""


class Forbidden(Refused):
    """The key has not the scope that this needs."""


class NotFound(Refused):
    pass


class Conflict(Refused):
    """An idempotency key that was used for something else; a slot that is in use."""


@dataclass(eq=False)
class NotValid(Refused):
    """The request makes no sense: what is wrong with which field."""

    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class Unavailable(Refused):
    """Not now: no slot is free, the pool is drained, or the server is in trouble."""

    retry_after_s: float = 1.0


@dataclass(eq=False)
class BotEnded(ClientError):
    """The bot has ended and can no longer become what was waited for."""

    bot: "Bot"

    def __str__(self) -> str:
        why = f" ({self.bot.failure_code}: {self.bot.failure_reason})"
        return f"Bot {self.bot.id} ended {self.bot.status}{why if self.bot.failure_code else ''}."


@dataclass(eq=False)
class WaitedTooLong(ClientError, TimeoutError):
    bot: "Bot"
    waited_s: float

    def __str__(self) -> str:
        return f"Bot {self.bot.id} is still {self.bot.status} after {self.waited_s:g} s."
