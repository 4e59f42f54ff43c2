"""Errors between a container and the control plane.

Messages never contain the token, because they appear in container output and failure reasons.
"""

from dataclasses import dataclass


class AgentError(Exception):
    """Base of the agent's errors."""


@dataclass(eq=False)
class Misconfigured(AgentError):
    """The container's environment is incomplete or wrong."""

    variable: str
    problem: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.problem}"


@dataclass(eq=False)
class Refused(AgentError):
    """The control plane refused the call; a retry cannot help."""

    status: int
    detail: str

    def __str__(self) -> str:
        return f"The control plane refused the call ({self.status}): {self.detail}"


@dataclass(eq=False)
class Unavailable(AgentError):
    """The control plane did not answer: retry, and conclude nothing."""

    problem: str
    retry_after_s: float = 0.0

    def __str__(self) -> str:
        return f"The control plane does not answer: {self.problem}"


@dataclass(eq=False)
class Limited(Unavailable):
    """The control plane refused the call for now because of a limit: retry later."""

    def __str__(self) -> str:
        return f"The control plane limits the calls: {self.problem}"


@dataclass(eq=False)
class Released(AgentError):
    """The container's assignment has ended: the bot must not join and reports nothing."""

    bot_id: int | None
    """None if the container was on standby and gets no bot."""

    def __str__(self) -> str:
        if self.bot_id is None:
            return "This container was on standby and gets no bot any more."
        return f"The slot of bot {self.bot_id} was released; this container must not run the bot."
