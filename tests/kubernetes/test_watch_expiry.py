"""A watch continues at a version that the API server no longer has: it is cut with 410."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from botpool.backends.kubernetes import KubernetesBackend, names, watch
from botpool.backends.kubernetes.access import find_access
from botpool.domain.ids import ContainerId
from tests.backends.harness import SPEC
from tests.backends.kubernetes_harness import KubernetesHarness
from tests.backends.scripted_kubernetes import GrantingBudget
from tests.support.kubernetes import own_cluster


class HeldWatch(httpx.AsyncHTTPTransport):
    """Holds the second watch back until the test lets it go."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.versions: list[str] = []
        self.arrived, self.proceed = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if "watch" in request.url.params:
            self.versions.append(request.url.params["resourceVersion"])
            if len(self.versions) == 2:
                self.arrived.set()
                await self.proceed.wait()
        return await super().handle_async_request(request)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_watch_that_is_cut_with_410_starts_again_and_announces_every_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restarted API server knows no version from before its start."""
    errors: list[int] = []
    parse = watch._parse

    def record(line: str) -> Mapping[str, Any]:
        event = parse(line)
        if event.get("type") == "ERROR":
            errors.append(event["object"]["code"])
        return event

    monkeypatch.setattr(watch, "_parse", record)
    monkeypatch.setattr(watch, "_WATCH_S", 2)
    with own_cluster() as cluster, cluster.namespace() as namespace:
        harness = KubernetesHarness(cluster, namespace)
        config = harness.config()
        slot = names.container_id_of(config.installation_id, SPEC.name)
        await harness.duplicate(slot)
        transport = HeldWatch(verify=find_access(config).tls)
        backend = KubernetesBackend(config, GrantingBudget(), transport=transport)

        async def first_hint() -> ContainerId:
            async with contextlib.aclosing(backend.changes()) as hints:  # type: ignore[type-var]
                return await anext(hints)

        hint = asyncio.create_task(first_hint())
        await asyncio.wait_for(transport.arrived.wait(), 120)
        assert not hint.done(), "nothing has changed"
        cluster.stop_api_server()
        cluster.start_api_server()
        transport.proceed.set()
        assert await asyncio.wait_for(hint, 120) == slot
        assert errors == [410]
        assert len(transport.versions) == 2, "the list comes before the next watch"
        await backend.close()
        await harness.clear()
