"""Translates errors of PostgreSQL and of connections into `DatabaseUnavailable`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg
import psycopg_pool

from botpool.domain.errors import DatabaseProblem, DatabaseUnavailable

_PROBLEMS: Mapping[str, DatabaseProblem] = {
    "25006": DatabaseProblem.READ_ONLY,
    "25P03": DatabaseProblem.STATEMENT_TIMEOUT,
    "25P04": DatabaseProblem.STATEMENT_TIMEOUT,
    "40": DatabaseProblem.CONFLICT,
    "42501": DatabaseProblem.NOT_PERMITTED,
    "53": DatabaseProblem.OUT_OF_RESOURCES,
    "53100": DatabaseProblem.DISK_FULL,
    "53300": DatabaseProblem.TOO_MANY_CONNECTIONS,
    "55P03": DatabaseProblem.LOCK_TIMEOUT,
    "57": DatabaseProblem.SHUTTING_DOWN,
    "57014": DatabaseProblem.STATEMENT_TIMEOUT,
    "58": DatabaseProblem.SYSTEM_ERROR,
    "XX001": DatabaseProblem.SYSTEM_ERROR,
    "XX002": DatabaseProblem.SYSTEM_ERROR,
}
"""By SQLSTATE, or by its class: the first two characters."""

_CONNECTION_PROBLEMS: Mapping[str, DatabaseProblem] = {
    "too many": DatabaseProblem.TOO_MANY_CONNECTIONS,
    "connection slots are reserved": DatabaseProblem.TOO_MANY_CONNECTIONS,
    "is shutting down": DatabaseProblem.SHUTTING_DOWN,
    "is starting up": DatabaseProblem.SHUTTING_DOWN,
    "in recovery mode": DatabaseProblem.SHUTTING_DOWN,
}
"""By a part of the message: libpq reports no SQLSTATE for a refused connection."""

FAILURES = (psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed)
"""Everything that a connection or the pool can raise."""

_CONNECTION_LOST = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg_pool.PoolTimeout,
    psycopg_pool.PoolClosed,
)


@contextmanager
def translated_failures() -> Iterator[None]:
    """Turn failures of the database in this block into `DatabaseUnavailable`."""
    try:
        yield
    except FAILURES as error:
        meaning = unavailable(error)
        if meaning is None:
            raise
        raise meaning from error


def unavailable(error: Exception) -> DatabaseUnavailable | None:
    """Return what an error means if the database is at fault, or None: then Botpool is."""
    state = getattr(error, "sqlstate", None) or ""
    problem = _PROBLEMS.get(state) or _PROBLEMS.get(state[:2])
    if problem is None and isinstance(error, _CONNECTION_LOST):
        problem = _connection_problem(str(error))
    if problem is None:
        return None
    return DatabaseUnavailable(DatabaseUnavailable.after(error).detail, problem)


def _connection_problem(message: str) -> DatabaseProblem:
    found = (problem for part, problem in _CONNECTION_PROBLEMS.items() if part in message)
    return next(found, DatabaseProblem.NO_ANSWER)
