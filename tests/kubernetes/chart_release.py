"""A release of the chart on a cluster, with its database and a load balancer outside of it."""

import asyncio
import json
import secrets
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg

from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix
from tests.support.kubernetes import Cluster
from tests.support.kubernetes.botpool_image import botpool_image
from tests.support.postgres import TestPostgres
from tests.support.server import client
from tests.support.tcp_proxy import Address, TcpProxy

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "botpool"
IMAGE = "botpool.test/botpool"
TAG = "1"
RELEASE = "botpool"
_FOLLOW_INTERVAL_S = 0.2
_READY_S = 170


@dataclass(slots=True, kw_only=True)
class ChartRelease:
    cluster: Cluster
    namespace: str
    database_url: str
    installation_id: str
    key: str = field(default_factory=new_api_key)
    url: str = ""
    """The address of the load balancer."""
    ready: frozenset[str] = frozenset()
    """The addresses of the Service's ready endpoints."""

    async def install(self, **values: Any) -> None:
        """Install or upgrade the release, and wait until all replicas are ready."""
        settings = {
            "installation": {"id": self.installation_id},
            "server": {"public_url": self.url, "drain_s": 3},
            **values.pop("settings", {}),
        }
        image = {"repository": IMAGE, "tag": TAG, "pullPolicy": "Never"}
        small = {"requests": {"cpu": "10m", "memory": "64Mi"}}
        chosen = {"image": image, "resources": small, "settings": settings, **values}
        await self._helm(
            "upgrade", "--install", RELEASE, str(CHART), "--values", "-", text=json.dumps(chosen)
        )
        await self.rollout()

    async def rollout(self) -> None:
        """Wait until the Deployment has only replicas of the newest version, all ready."""
        await asyncio.to_thread(
            self.cluster.kubectl,
            *("--namespace", self.namespace, "rollout", "status", f"deployment/{RELEASE}"),
            f"--timeout={_READY_S}s",
        )

    def replicas(self) -> dict[str, dict[str, Any]]:
        """Return the pods of the Deployment that do not end, by their uids."""
        selector = "app.kubernetes.io/component=control-plane"
        pods = self.cluster.pods(self.namespace, selector)
        return {
            pod["metadata"]["uid"]: pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        }

    def client(self, **options: Any) -> httpx.AsyncClient:
        return client(self.url, self.key, **options)

    def insert_api_key(self) -> None:
        with psycopg.connect(self.database_url) as connection:
            connection.execute(
                "INSERT INTO api_keys (name, scope, prefix, key_hash)"
                " VALUES ('test', 'admin', %s, %s)",
                [shown_prefix(self.key), hash_api_key(self.key)],
            )

    async def follow_endpoints(self) -> None:
        """Follow the Service as a load balancer does: new connections go to ready endpoints."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        while True:
            slices = await asyncio.to_thread(self.cluster.kubectl.request, "GET", path)
            self.ready = frozenset(
                endpoint["addresses"][0]
                for each in slices["items"]
                for endpoint in each["endpoints"] or ()
                if endpoint["conditions"].get("ready")
            )
            await asyncio.sleep(_FOLLOW_INTERVAL_S)

    async def _helm(self, *arguments: str, text: str | None = None) -> None:
        options = ("--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.namespace)
        done = await asyncio.to_thread(
            subprocess.run,
            [self.cluster.program("helm"), *arguments, *options],
            input=text,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


@asynccontextmanager
async def chart_release(
    cluster: Cluster, postgres: TestPostgres, environment: Mapping[str, str] | None = None
) -> AsyncIterator[ChartRelease]:
    """Prepare a namespace, an empty database, a Secret and a load balancer; install nothing."""
    cluster.import_image(await asyncio.to_thread(botpool_image, f"{IMAGE}:{TAG}"))
    turns = count()
    async with AsyncExitStack() as stack:
        namespace = stack.enter_context(cluster.namespace())
        url = postgres.create_database(tcp=True)
        stack.callback(postgres.drop_database, url)
        release = ChartRelease(
            cluster=cluster,
            namespace=namespace,
            database_url=url,
            installation_id=f"chart-{secrets.token_hex(4)}",
        )
        host = cluster.host_address
        database = await stack.enter_async_context(
            TcpProxy.running(lambda: ("127.0.0.1", postgres.port), host=host)
        )

        def next_replica() -> Address:
            ready = sorted(release.ready) or ["127.0.0.1"]
            return ready[next(turns) % len(ready)], 8700 if release.ready else 1

        balancer = await stack.enter_async_context(TcpProxy.running(next_replica, host=host))
        release.url = f"http://{host}:{balancer.port}"
        inside = url.replace(f"127.0.0.1:{postgres.port}", f"{host}:{database.port}")
        _create_secret(
            cluster,
            namespace,
            {
                "DATABASE_URL": inside,
                "BOTPOOL_INSTALLATION__SECRET": secrets.token_urlsafe(32),
                **(environment or {}),
            },
        )
        following = asyncio.create_task(release.follow_endpoints())
        yield release
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await release._helm("uninstall", RELEASE, "--ignore-not-found")


def _create_secret(cluster: Cluster, namespace: str, entries: Mapping[str, str]) -> None:
    body = {"metadata": {"name": "botpool"}, "stringData": dict(entries)}
    cluster.kubectl.request("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
