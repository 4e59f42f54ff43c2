"""The values that the services of a replica share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from botpool.backends.protocol import Backend
from botpool.domain.policy import Policy
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database


class Shared(TypedDict):
    """The arguments that every service takes."""

    database: Database
    policy: Policy
    wakeups: Wakeups
    metrics: Metrics
    backends: Mapping[str, Backend]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A part of a replica. Its own fields are the other services that it calls."""

    database: Database
    policy: Policy
    wakeups: Wakeups
    metrics: Metrics
    backends: Mapping[str, Backend]
    """The backends that this replica configures, by name."""
