"""Errors that the client raises. No message contains the API key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botpool.domain.errors import BotpoolError

if TYPE_CHECKING:
    from botpool.client.records import Bot


class ClientError(BotpoolError):
    """The base of all errors that the client raises."""


@dataclass(eq=False)
class Unreachable(ClientError):
    """The server did not answer, after all attempts."""

    url: str
    problem: str

    def __str__(self) -> str:
        return f"Botpool at {self.url} does not answer: {self.problem}"


class ResponseLost(Unreachable):
    """The connection failed after the request was sent: the server may have carried it out."""


@dataclass(eq=False)
class UnexpectedResponse(ClientError):
    """Something answered, but not as Botpool does."""

    url: str
    problem: str

    def __str__(self) -> str:
        return (
            f"{self.url} did not answer as Botpool does ({self.problem}). Check the address, "
            "and that client and server have the same version."
        )


@dataclass(eq=False)
class Refused(ClientError):
    """The server refused the request; `detail` is its explanation."""

    status: int
    detail: str

    def __str__(self) -> str:
        return self.detail


class Unauthorized(Refused):
    """The key is missing, unknown or revoked."""


class Forbidden(Refused):
    """The key lacks the scope that the call needs."""


class NotFound(Refused):
    """The bot, slot or pool does not exist."""


class Conflict(Refused):
    """The idempotency key belongs to another request, or the slot is in use."""


@dataclass(eq=False)
class NotValid(Refused):
    """The request is not valid; `fields` maps each invalid field to its problem."""

    fields: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "; ".join(f"{name}: {text}" for name, text in self.fields.items()) or self.detail


@dataclass(eq=False)
class Unavailable(Refused):
    """The server cannot do this now: no free slot, a drained pool, a limit, or an outage."""

    retry_after_s: float = 1.0


@dataclass(eq=False)
class BotEnded(ClientError):
    """The bot ended before it reached the status that `wait` waits for."""

    bot: "Bot"

    def __str__(self) -> str:
        why = f" ({self.bot.failure_code}: {self.bot.failure_reason})"
        return f"Bot {self.bot.id} ended {self.bot.status}{why if self.bot.failure_code else ''}."


@dataclass(eq=False)
class WaitedTooLong(ClientError, TimeoutError):
    """The bot did not reach the wanted status within `timeout_s`."""

    bot: "Bot"
    waited_s: float

    def __str__(self) -> str:
        return f"Bot {self.bot.id} is still {self.bot.status} after {self.waited_s:g} s."
