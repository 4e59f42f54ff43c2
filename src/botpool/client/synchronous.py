"""Synchronous forms of the calls, which are written once, as coroutines.

A synchronous client has the asynchronous calls over a `BlockingConnection`. Its coroutines never
suspend, so one step runs a whole call, without an event loop and in the caller's thread.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Synchronous:
    """The base of the synchronous calls of each subject."""

    _calls: Any
    """The asynchronous calls of all subjects, over a blocking connection."""


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that never suspends, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    coroutine.close()
    raise RuntimeError("a call of the synchronous client was suspended")


def synchronous(
    call: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Synchronous, P], R]:
    """Return the synchronous form of a call that returns a result."""

    @wraps(call)
    def method(self: Synchronous, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(call(self._calls, *args, **kwargs))

    return method


def iterated(
    call: Callable[Concatenate[T, P], AsyncGenerator[R, None]],
) -> Callable[Concatenate[Synchronous, P], Iterator[R]]:
    """Return the synchronous form of a call that yields results one after the other."""

    @wraps(call)
    def method(self: Synchronous, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        results = call(self._calls, *args, **kwargs)
        try:
            while True:
                try:
                    result = run(results.asend(None))
                except StopAsyncIteration:
                    return
                yield result
        finally:
            run(results.aclose())

    return method
