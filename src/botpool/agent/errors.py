"""What can go wrong between a container and the control plane.

No message here ever holds the token: messages end up in container output and failure reasons.
"""

from dataclasses import dataclass


class AgentError(Exception):
    """The base of everything that the agent raises on purpose."""


@dataclass(eq=False)
class Misconfigured(AgentError):
    """The container's environment is incomplete or wrong."""

    variable: str
    problem: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.problem}"


@dataclass(eq=False)
class Refused(AgentError):
    """The control plane answered no. Asking again cannot help."""

    status: int
    detail: str

    def __str__(self) -> str:
        return f"The control plane refused the call ({self.status}): {self.detail}"


@dataclass(eq=False)
class Unavailable(AgentError):
    """No answer of the control plane itself: wait and ask again, conclude nothing."""

    problem: str
    retry_after_s: float = 0.0

    def __str__(self) -> str:
        return f"The control plane does not answer: {self.problem}"


@dataclass(eq=False)
class Released(AgentError):
    """This container's assignment is over: the bot must not join, and has nothing to report."""

    bot_id: int

    def __str__(self) -> str:
        return f"The slot of bot {self.bot_id} was released: this container must not run it."
