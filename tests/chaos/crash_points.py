"""Control planes that kill themselves (-9) at a named point of their work.

The product knows nothing of it. All that the engine does to the outside is a named statement of the
`Database` or a named call of the `Backend`, so a point is a moment and such a name, and the number
of the time that is meant: `after:start`, `within:free_slots`, `before:ensure#2`.

- `before`: nothing of it was sent.
- `within`: all statements of the transaction ran, and its commit was not sent.
- `after`: it is done, or committed, and the engine has not heard of it. A statement that changed
  nothing (gave no row) is not counted.

Run as a program, this module is a fork server: it imports the product once and forks a control
plane for each order on its standard input. It answers with the pid and, when that process has
ended, with its exit code.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

import uvloop

from botpool import app, logs
from botpool.backends import docker
from botpool.backends.docker import DockerBackend
from botpool.backends.docker.daemon import Daemon
from botpool.backends.process import ProcessBackend
from botpool.backends.process import backend as process_backend
from botpool.backends.process.launch import launch
from botpool.cli.server_process import run
from botpool.domain.policy import Policy
from botpool.settings import Settings
from botpool.store.database import Call, Database, Rows, Transaction

T = TypeVar("T")

BACKEND_CALLS = ("ensure", "start", "observe", "stop", "delete")

DOCKER_REQUESTS = {
    "launch": "start",
    "create_container": "create",
    "rename_container": "rename",
    "remove_container": "remove",
}
"""What the Docker backend asks of the daemon, by the name of the step."""

LEASE_S = 2.0
"""Long enough for two calls, short enough to be waited for: the lease of the dead is respected."""
CALL_TIMEOUT_S = 0.7


class Moment(StrEnum):
    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    moment: Moment
    step: str
    time: int

    @classmethod
    def parse(cls, text: str) -> Self:
        moment, _, rest = text.partition(":")
        step, _, time = rest.partition("#")
        return cls(moment=Moment(moment), step=step, time=int(time or 1))


class Fuse:
    """Counts how often the point was passed, and ends this process at the time that is meant."""

    def __init__(self, point: Point) -> None:
        self._point = point
        self._left = point.time

    def burn(self, moment: Moment, *steps: str) -> None:
        if moment is self._point.moment and self._point.step in steps:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def round_call(self, step: str, call: Callable[..., Awaitable[T]]) -> Callable[..., Any]:
        async def watched(*arguments: Any, **options: Any) -> T:
            self.burn(Moment.BEFORE, step)
            answer = await call(*arguments, **options)
            self.burn(Moment.AFTER, step)
            return answer

        return watched

    def round_function(self, step: str, function: Callable[..., T]) -> Callable[..., T]:
        def watched(*arguments: Any, **options: Any) -> T:
            self.burn(Moment.BEFORE, step)
            answer = function(*arguments, **options)
            self.burn(Moment.AFTER, step)
            return answer

        return watched


class WatchedTransaction(Transaction):
    def __init__(self, watched: Transaction, fuse: Fuse) -> None:
        self._watched = watched
        self._fuse = fuse
        self.effective: list[str] = []

    async def send(self, *calls: Call) -> list[Rows]:
        names = [name for name, _ in calls]
        self._fuse.burn(Moment.BEFORE, *names)
        answers = await self._watched.send(*calls)
        self.effective += [name for name, rows in zip(names, answers, strict=True) if rows]
        return answers


def watched_database(fuse: Fuse) -> type[Database]:
    class WatchedDatabase(Database):
        async def fetch(self, name: str, parameters: Mapping[str, Any]) -> Rows:
            fuse.burn(Moment.BEFORE, name)
            rows = await super().fetch(name, parameters)
            if rows:
                fuse.burn(Moment.AFTER, name)
            return rows

        async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
            effective: list[str] = []

            async def watched(transaction: Transaction) -> T:
                watching = WatchedTransaction(transaction, fuse)
                result = await work(watching)
                fuse.burn(Moment.WITHIN, *watching.effective)
                effective[:] = watching.effective
                return result

            result = await super().transact(watched)
            fuse.burn(Moment.AFTER, *effective)
            return result

        async def atomically(self, *calls: Call) -> list[Rows]:
            """The same transaction in more round trips, so that there is a `within`."""
            return await self.transact(lambda transaction: transaction.send(*calls))

    return WatchedDatabase


def set_fuse(fuse: Fuse) -> None:
    """Put watched parts where `app` and the backends find the product's own."""
    calls = {name: fuse.round_call(name, getattr(ProcessBackend, name)) for name in BACKEND_CALLS}
    vars(app).update(
        Database=watched_database(fuse),
        ProcessBackend=type("WatchedBackend", (ProcessBackend,), calls),
    )
    # Inside `start`: the launcher is a process, and nobody has heard its answer yet.
    vars(process_backend).update(launch=fuse.round_function("launch", launch))
    calls = {name: fuse.round_call(name, getattr(DockerBackend, name)) for name in BACKEND_CALLS}
    vars(docker).update(DockerBackend=type("WatchedDocker", (DockerBackend,), calls))
    # The same at Docker, and the steps before it.
    for step, request in DOCKER_REQUESTS.items():
        setattr(Daemon, request, fuse.round_call(step, getattr(Daemon, request)))


def serve(order: Mapping[str, Any]) -> None:
    """Be `botpool serve`, with short leases, to the end or to the point."""
    policy_of = app.policy_of

    def with_short_leases(settings: Settings) -> Policy:
        call_timeout_s = order.get("call_timeout_s", CALL_TIMEOUT_S)
        lease_s = max(LEASE_S, 3 * call_timeout_s)
        return replace(policy_of(settings), lease_s=lease_s, call_timeout_s=call_timeout_s)

    app.policy_of = with_short_leases
    if order["point"] is not None:
        set_fuse(Fuse(Point.parse(order["point"])))
    logs.configure()
    uvloop.run(run(Settings(**order["settings"]), interactive=False))


def deliver(order: Mapping[str, Any]) -> int:
    """Fork a control plane that writes to a log of its own."""
    if pid := os.fork():
        return pid
    exit_code = 1
    try:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for source, standard in ((nowhere, 0), (log, 1), (log, 2)):
            os.dup2(source, standard)
        serve(order)
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(exit_code)


def main() -> None:
    for line in sys.stdin:
        pid = deliver(json.loads(line))
        print(pid, flush=True)  # noqa: T201 - the answer
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the second answer


if __name__ == "__main__":
    main()
