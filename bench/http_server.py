"""The HTTP server under load, in a separate process: `python -m bench.http_server <url> <hot>`.

It is the product's application and server with three more endpoints. `/noop` validates the body of
a request for a bot and responds. `/durable` also commits one small row. `/least` also runs the
statement of an admission, batched like the product's: an admission without key, record, log line
and full response. This replica has no backends, so that deployments do not compete with admissions;
or, with hot slots, a backend whose containers exist in memory only, and two pools: one hot, one
without standbys.
"""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
import uvloop
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from bench.cycles import BOT_REQUEST
from bench.virtual_backend import VirtualBackend
from botpool import logs
from botpool.api import schemas
from botpool.api.app import create_app
from botpool.api.connections import ConnectionLimits
from botpool.api.listener import listening_socket
from botpool.api.server import HttpServer
from botpool.domain.bots import AdmissionRequest
from botpool.domain.ids import PoolName
from botpool.domain.limits import Limits, Rate
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.tokens import new_api_key
from botpool.domain.warm import Warm
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.batching import Batcher
from botpool.settings import Settings
from botpool.settings.sections import PoolSettings, QueueSettings
from botpool.store.database import Database
from botpool.store.queue import ClaimedSlot, admit_to_idle_slots, new_bots
from botpool.store.standbys import use_refill

AGENT_KEY = b"bench"
HOT_POOL, PLAIN_POOL = "google-meet", "teams"
_POOL_NAMES = (HOT_POOL, PLAIN_POOL)
_NOOP = {"ok": True}
_DAY_S = 86_400.0
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
def serving(url: str, *, hot: int = 0) -> Iterator[Server]:
    """Run a server on the database for the duration of the block, perhaps with hot slots."""
    command = [sys.executable, "-m", "bench.http_server", url, str(hot)]
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

    @app.post("/durable", status_code=201)
    async def durable(body: body_model) -> JSONResponse:  # type: ignore[valid-type]
        await use_refill(database, pool_name=PoolName(PLAIN_POOL), until=datetime.now(UTC))
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
    routes[:0] = [routes.pop(), routes.pop(), routes.pop()]
    return app


def _pools(hot: int) -> list[PoolSpec]:
    """Return a pool that keeps all of its slots hot, and one of the same size without standbys."""
    return [
        PoolSpec(
            pool_name=PoolName(name),
            backend="virtual",
            image="virtual",
            max_size=hot,
            heartbeats="none",
            warm=Warm(
                hot=standbys, max_age_s=_DAY_S, handover_timeout_s=60, refill_per_minute=60_000
            ),
        )
        for name, standbys in ((HOT_POOL, hot), (PLAIN_POOL, 0))
    ]


async def _serve(url: str, hot: int) -> None:
    database = Database(url)
    await database.open()
    identity = Identity(
        owner="bench-http",
        public_url="http://127.0.0.1",
        agent_keys=(AGENT_KEY,),
        standby_keys=(AGENT_KEY,),
    )
    backends = {"virtual": VirtualBackend()} if hot else {}
    replica = Replica(database, backends, Policy(limits=_LIMITS), identity)
    if hot:
        await replica.pools.configure(_pools(hot))
    key = new_api_key()
    await replica.api_keys.adopt(key, "bench", "admin")
    await replica.start()
    with listening_socket("127.0.0.1", 0) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = _with_bare_endpoints(replica, database)
        server = HttpServer(app, listener, limits=ConnectionLimits(per_address=4096))
        await server.serve(on_ready=lambda: print(address, key, flush=True))
    await replica.stop()
    await database.close()


def main() -> None:
    logs.configure()
    uvloop.run(_serve(sys.argv[1], int(sys.argv[2])))


if __name__ == "__main__":
    main()
