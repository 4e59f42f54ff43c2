"""Lists of Pods: their pages, time limits and fields, and lists that several slots share."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import pytest

from botpool.backends.kubernetes import KubernetesBackend, names
from botpool.backends.kubernetes.pod_state import Pod
from botpool.backends.kubernetes.slot_lists import SlotLists
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import DeploymentId
from tests.backends.scripted_kubernetes import ScriptedKubernetes
from tests.backends.test_kubernetes_requests import RUN, SLOT, SPEC, listing, pod

TIMEOUT_S = 60.0
Call = Callable[[KubernetesBackend], Awaitable[object]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ScriptedKubernetes:
    """An API server with four pages. Each takes more than half of the time limit of a call."""
    monotonic, passed_s = time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + passed_s)

    def slow(token: str) -> Callable[[httpx.Request], httpx.Response]:
        def answer(request: httpx.Request) -> httpx.Response:
            nonlocal passed_s
            passed_s += 0.6 * TIMEOUT_S
            return listing(pod(), token=token)

        return answer

    server = ScriptedKubernetes()
    server.on("GET", "/pods", *(slow(token) for token in ("a", "b", "c", "")))
    return server


async def _observe(backend: KubernetesBackend) -> object:
    other = names.container_id_of("one", "pool-teams-002")
    return await backend.observe([SLOT, other], timeout_s=TIMEOUT_S)


async def _list_owned(backend: KubernetesBackend) -> object:
    return await backend.list_owned(timeout_s=TIMEOUT_S)


async def _discard_unknown(backend: KubernetesBackend) -> object:
    async def none() -> set[DeploymentId]:
        return set()

    return await backend.discard_unknown(none, min_age_s=0, timeout_s=TIMEOUT_S)


async def _delete(backend: KubernetesBackend) -> object:
    return await backend.delete(SLOT, stop_through=RUN, timeout_s=TIMEOUT_S)


@pytest.mark.parametrize("call", [_observe, _list_owned, _discard_unknown])
async def test_each_page_has_the_whole_time_limit(server: ScriptedKubernetes, call: Call) -> None:
    await call(server.backend())
    assert [each.url.params.get("continue", "") for each in server.requests] == ["", "a", "b", "c"]


async def test_call_under_a_lease_has_one_time_limit(server: ScriptedKubernetes) -> None:
    with pytest.raises(BackendUnavailable, match="delete did not end"):
        await _delete(server.backend())
    assert len(server.requests) == 2


async def test_slots_that_wait_share_one_list() -> None:
    asked: list[str] = []
    proceed = asyncio.Event()

    async def read(selector: str) -> Sequence[Pod]:
        asked.append(selector)
        await proceed.wait()
        return [pod(run=11), pod(run=12)]

    lists = SlotLists(read, "one")
    first = asyncio.create_task(lists.pods_of("pool-teams-009"))
    await asyncio.sleep(0)
    later = [asyncio.create_task(lists.pods_of(f"pool-teams-{n:03}")) for n in (1, 2, 3)]
    repeated = asyncio.create_task(lists.pods_of("pool-teams-001"))
    await asyncio.sleep(0)
    later.pop().cancel()
    proceed.set()
    assert await first == []
    assert [len(found) for found in await asyncio.gather(*later, repeated)] == [2, 0, 2]
    installation = "botpool.dev/installation=one,botpool.dev/slot in "
    assert asked == [
        f"{installation}(pool-teams-009)",
        f"{installation}(pool-teams-001,pool-teams-002,pool-teams-003)",
    ]
    assert len(await lists.pods_of("pool-teams-001")) == 2
    assert len(asked) == 3, "an earlier list is no evidence"


async def test_failed_list_fails_those_that_share_it_and_no_later_one() -> None:
    answers: list[Any] = [BackendUnavailable("no answer"), []]

    async def read(selector: str) -> Sequence[Pod]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    lists = SlotLists(read, "one")
    calls = [lists.pods_of("pool-teams-001"), lists.pods_of("pool-teams-002")]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [BackendUnavailable] * 2
    assert await lists.pods_of("pool-teams-001") == []


async def test_end_of_the_backend_ends_waiting_calls() -> None:
    async def never(selector: str) -> Sequence[Pod]:
        await asyncio.Event().wait()
        return []

    lists = SlotLists(never, "one")
    call = asyncio.create_task(lists.pods_of("pool-teams-001"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await lists.close()
    with pytest.raises(BackendUnavailable):
        await call


async def test_concurrent_ensures_send_fewer_lists_than_slots() -> None:
    server = ScriptedKubernetes()
    server.on("GET", "/pods", listing())
    backend = server.backend()
    specs = [
        type(SPEC)(name=f"pool-teams-{number:03}", pool_name="teams", image="bot:1")
        for number in range(1, 31)
    ]
    await asyncio.gather(
        *(backend.ensure(spec, stop_through=RUN, timeout_s=TIMEOUT_S) for spec in specs)
    )
    assert len(server.requests) <= 2
