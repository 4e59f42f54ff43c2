"""Replicas that kill themselves with SIGKILL at a named point of their work.

Every external action of the engine is a named statement of the `Database` or a named call of the
`Backend`. A point is a moment, such a name, and optionally the occurrence: `after:start`,
`within:free_slots`, `before:ensure#2`.

- `before`: the engine has not sent the statement or the call.
- `within`: all statements of the transaction ran, and the engine has not sent the commit.
- `after`: the action is complete or committed, and the engine has not received the result. A
  statement without a result is not counted.

Run as a program, this module is a fork server: it imports the product once and forks a replica for
each request on its standard input. It prints the process id and, after the end of that process,
its exit code.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

import uvloop

from botpool import app, configured_backends, logs
from botpool.backends import docker, kubernetes
from botpool.backends.docker import DockerBackend
from botpool.backends.docker.daemon import Daemon
from botpool.backends.kubernetes import KubernetesBackend
from botpool.backends.kubernetes import backend as kubernetes_backend
from botpool.backends.kubernetes.api import Api
from botpool.backends.process import ProcessBackend
from botpool.backends.process import backend as process_backend
from botpool.backends.process.launch import launch
from botpool.cli.server_process import run
from botpool.domain.policy import Policy
from botpool.settings import Settings
from botpool.store.database import Database, Transaction
from botpool.store.query import Statement

T = TypeVar("T")

BACKEND_CALLS = ("ensure", "start", "observe", "stop", "delete")

DOCKER_REQUESTS = {
    "launch": "start",
    "create_container": "create",
    "rename_container": "rename",
    "remove_container": "remove",
}
"""Requests of the Docker backend to the daemon, by the name of the step."""

KUBERNETES_REQUESTS = ("create_pod", "delete_pod")
KUBERNETES_STEPS = {"open_gate": "open_gate", "remove_pod": "discard"}
"""Functions of the Kubernetes backend that change a Pod with a patch, by the name of the step."""

LEASE_S = 2.0
"""Long enough for two calls, and short enough that a test can wait for its end."""
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


class CrashTrigger:
    """Counts how often the replica reaches the point, and kills it at the given occurrence."""

    def __init__(self, point: Point) -> None:
        self._point = point
        self._left = point.time

    def reached(self, moment: Moment, *steps: str) -> None:
        if moment is self._point.moment and self._point.step in steps:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def wrap_call(self, step: str, call: Callable[..., Awaitable[T]]) -> Callable[..., Any]:
        async def wrapped(*arguments: Any, **options: Any) -> T:
            self.reached(Moment.BEFORE, step)
            response = await call(*arguments, **options)
            self.reached(Moment.AFTER, step)
            return response

        return wrapped

    def wrap_function(self, step: str, function: Callable[..., T]) -> Callable[..., T]:
        def wrapped(*arguments: Any, **options: Any) -> T:
            self.reached(Moment.BEFORE, step)
            response = function(*arguments, **options)
            self.reached(Moment.AFTER, step)
            return response

        return wrapped


class TrackedTransaction(Transaction):
    def __init__(self, transaction: Transaction, trigger: CrashTrigger) -> None:
        self._transaction = transaction
        self._trigger = trigger
        self.effective: list[str] = []

    async def run(self, statements: Sequence[Statement[Any]]) -> None:
        self._trigger.reached(Moment.BEFORE, *_names(statements))
        await self._transaction.run(statements)
        self.effective += _effective(statements)


def _names(statements: Sequence[Statement[Any]]) -> list[str]:
    return [statement.name for statement in statements]


def _effective(statements: Sequence[Statement[Any]]) -> list[str]:
    """Return the names of the statements that have a result."""
    return [statement.name for statement in statements if statement.result]


def tracked_database(trigger: CrashTrigger) -> type[Database]:
    class TrackedDatabase(Database):
        async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
            effective: list[str] = []

            async def tracked_work(transaction: Transaction) -> T:
                tracked = TrackedTransaction(transaction, trigger)
                result = await work(tracked)
                trigger.reached(Moment.WITHIN, *tracked.effective)
                effective[:] = tracked.effective
                return result

            result = await super().transact(tracked_work)
            trigger.reached(Moment.AFTER, *effective)
            return result

        async def commit(self, statements: Sequence[Statement[Any]]) -> None:
            """Run several statements with more round trips, so that `within` exists."""
            if len(statements) > 1:
                await self.transact(lambda transaction: transaction.run(statements))
                return
            trigger.reached(Moment.BEFORE, *_names(statements))
            await super().commit(statements)
            if effective := _effective(statements):
                trigger.reached(Moment.AFTER, *effective)

    return TrackedDatabase


def install_trigger(trigger: CrashTrigger) -> None:
    """Replace the database and the backends that `app` uses with tracked ones."""
    calls = {name: trigger.wrap_call(name, getattr(ProcessBackend, name)) for name in BACKEND_CALLS}
    vars(app).update(Database=tracked_database(trigger))
    vars(configured_backends).update(
        ProcessBackend=type("TrackedProcessBackend", (ProcessBackend,), calls)
    )
    # Inside `start`: the launcher runs, and the backend has not received its response.
    vars(process_backend).update(launch=trigger.wrap_function("launch", launch))
    calls = {name: trigger.wrap_call(name, getattr(DockerBackend, name)) for name in BACKEND_CALLS}
    vars(docker).update(DockerBackend=type("TrackedDockerBackend", (DockerBackend,), calls))
    # The requests to the Docker daemon inside `ensure` and `start`.
    for step, request in DOCKER_REQUESTS.items():
        setattr(Daemon, request, trigger.wrap_call(step, getattr(Daemon, request)))
    _install_kubernetes_trigger(trigger)


def _install_kubernetes_trigger(trigger: CrashTrigger) -> None:
    calls = {
        name: trigger.wrap_call(name, getattr(KubernetesBackend, name))
        for name in (*BACKEND_CALLS, "prepare")
    }
    tracked = type("TrackedKubernetesBackend", (KubernetesBackend,), calls)
    vars(kubernetes).update(KubernetesBackend=tracked)
    for request in KUBERNETES_REQUESTS:
        setattr(Api, request, trigger.wrap_call(request, getattr(Api, request)))
    module = vars(kubernetes_backend)
    for step, function in KUBERNETES_STEPS.items():
        module[function] = trigger.wrap_call(step, module[function])


def serve(request: Mapping[str, Any]) -> None:
    """Run `botpool serve` with short leases until it ends or reaches the point."""
    policy_of = app.policy_of

    def with_short_leases(settings: Settings) -> Policy:
        call_timeout_s = request.get("call_timeout_s", CALL_TIMEOUT_S)
        lease_s = max(LEASE_S, 3 * call_timeout_s)
        return replace(policy_of(settings), lease_s=lease_s, call_timeout_s=call_timeout_s)

    app.policy_of = with_short_leases
    if request["point"] is not None:
        install_trigger(CrashTrigger(Point.parse(request["point"])))
    logs.configure()
    uvloop.run(run(Settings(**request["settings"]), interactive=False))


def fork_replica(request: Mapping[str, Any]) -> int:
    """Fork a replica that writes to a log file of its own; return its process id."""
    if pid := os.fork():
        return pid
    exit_code = 1
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, standard in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, standard)
        serve(request)
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(exit_code)


def main() -> None:
    for line in sys.stdin:
        pid = fork_replica(json.loads(line))
        print(pid, flush=True)  # noqa: T201 - the first response
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the second response


if __name__ == "__main__":
    main()
