"""`botpool` with short leases that stops itself with SIGSTOP at its first call of one kind.

`python replica_paused_at.py <call> serve …`; the call `none` never pauses. The pause falls between
the check of the lease and the call to the backend, where the call's own deadline does not protect.
"""

import os
import signal
import sys
from dataclasses import replace
from typing import Any

from botpool import app
from botpool.backends.kubernetes import KubernetesBackend
from botpool.cli import main
from botpool.domain.policy import Policy
from botpool.engine.observability.instrumented_backend import InstrumentedBackend
from botpool.settings import Settings

LEASE_S, CALL_TIMEOUT_S = 6.0, 3.0
policy_of = app.policy_of


def with_short_leases(settings: Settings) -> Policy:
    return replace(policy_of(settings), lease_s=LEASE_S, call_timeout_s=CALL_TIMEOUT_S)


def pause_at(call: str) -> None:
    # Only Kubernetes prepares a start: it creates the Pod, which `start` allows to run.
    owner: type = KubernetesBackend if call == "prepare" else InstrumentedBackend
    original = getattr(owner, call)

    async def paused(backend: Any, *arguments: Any, **options: Any) -> Any:
        setattr(owner, call, original)
        os.kill(os.getpid(), signal.SIGSTOP)
        return await original(backend, *arguments, **options)

    setattr(owner, call, paused)


if __name__ == "__main__":
    app.policy_of = with_short_leases
    call = sys.argv.pop(1)
    if call != "none":
        pause_at(call)
    sys.exit(main())
