"""The HTTP server under load, in a separate process: `python -m bench.http_server <url>`.

It is the product's application and server with two more endpoints. `/noop` validates the body of a
request for a bot and responds. `/least` also runs the statement of an admission, batched like the
product's: an admission without key, record, log line and full response. This replica has no
backends, so that deployments do not compete with admissions.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil
import uvloop
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from bench.cycles import BOT_REQUEST
from botpool import logs
from botpool.api import schemas
from botpool.api.app import create_app
from botpool.api.listener import listening_socket
from botpool.api.server import HttpServer
from botpool.domain.limits import Limits, Rate
from botpool.domain.policy import Policy
from botpool.domain.records import AdmissionRequest
from botpool.domain.tokens import new_api_key
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.batching import Batcher
from botpool.settings import Settings
from botpool.settings.sections import PoolSettings, QueueSettings
from botpool.store.database import Database
from botpool.store.queue import ClaimedSlot, admit_to_idle_slots, new_bots

AGENT_KEY = b"bench"
_POOL_NAMES = ("google-meet",)
_NOOP = {"ok": True}
_WIDE = {"per_minute": 10**9, "burst": 10**6}
_LIMITS = Limits(
    requests=Rate(limit="limits.requests_per_minute", **_WIDE),
    posts=Rate(limit="limits.posts_per_minute", **_WIDE),
    queue_length=10**6,
)
"""Limits that refuse nothing and cost as much as the defaults: tokens are taken by the hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    address: str
    key: str
    process: psutil.Process


@contextlib.contextmanager
def serving(url: str) -> Iterator[Server]:
    """Run a server on the database for the duration of the block."""
    command = [sys.executable, "-m", "bench.http_server", url]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        try:
            address, key = child.stdout.readline().split()
            yield Server(address=address, key=key, process=psutil.Process(child.pid))
        finally:
            child.terminate()


def _with_bare_endpoints(replica: Replica, database: Database) -> FastAPI:
    settings = Settings(
        pools={name: PoolSettings() for name in _POOL_NAMES},
        queue=QueueSettings(default_timeout_ms=600_000),
    )
    app = create_app(replica, settings)
    body_model = schemas.bot_create_model(
        _POOL_NAMES, default_timeout_ms=600_000, max_timeout_ms=600_000
    )

    @app.post("/noop", status_code=201)
    async def noop(body: body_model) -> JSONResponse:  # type: ignore[valid-type]
        return JSONResponse(_NOOP, status_code=201)

    async def claim(requests: Sequence[AdmissionRequest]) -> list[ClaimedSlot]:
        claimed = await admit_to_idle_slots(database, idempotency_days=1, **new_bots(requests))
        assert len(claimed) == len(requests), "every request needs an idle slot"
        return claimed

    claims = Batcher("least", claim, max_batch=64, max_in_flight=2, is_idle=database.is_idle)

    @app.post("/least", status_code=201)
    async def least(body: body_model) -> JSONResponse:  # type: ignore[valid-type]
        claimed = await claims.submit(AdmissionRequest(bot=BOT_REQUEST, key=None))
        return JSONResponse({"id": claimed.bot_id}, status_code=201)

    # FastAPI searches its routes in order: first the endpoint to compare with, then the product's.
    routes = app.router.routes
    routes.insert(1, routes.pop())
    routes.insert(0, routes.pop())
    return app


async def _serve(url: str) -> None:
    database = Database(url)
    await database.open()
    identity = Identity(owner="bench-http", public_url="http://127.0.0.1", agent_keys=(AGENT_KEY,))
    replica = Replica(database, {}, Policy(limits=_LIMITS), identity)
    key = new_api_key()
    await replica.api_keys.adopt(key, "bench", "admin")
    await replica.start()
    with listening_socket("127.0.0.1", 0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = HttpServer(_with_bare_endpoints(replica, database), listener)
        await server.serve(on_ready=lambda: print(address, key, flush=True))
    await replica.stop()
    await database.close()


def main() -> None:
    logs.configure()
    uvloop.run(_serve(sys.argv[1]))


if __name__ == "__main__":
    main()
