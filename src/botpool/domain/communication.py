"""How Botpool communicates with the containers of a pool, as the pool's settings define it."""

from enum import StrEnum


class Protocol(StrEnum):
    """The protocol that the container speaks."""

    BOTPOOL = "botpool"
    MEEBOTER = "meeboter"
    VEXA = "vexa"
    NONE = "none"


WITHOUT_HEARTBEATS = frozenset({Protocol.NONE, Protocol.VEXA})
"""Protocols whose bots send no heartbeats, so that their silence proves nothing."""


class Outcome(StrEnum):
    """What decides the outcome of a bot."""

    REPORT = "report"
    EXIT_CODE = "exit-code"


class LeaveBy(StrEnum):
    """How a bot gets a request to leave."""

    HEARTBEAT = "heartbeat"
    SIGNAL = "signal"
