"""The chart on a real cluster: two replicas, and a rolling update that loses no request."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.kubernetes.chart_release import ChartRelease, chart_release
from tests.support.bot_image import PYTHON, archive
from tests.support.docker_installation import BOT as DOCKER_BOT
from tests.support.kubernetes import ApiError, Cluster
from tests.support.kubernetes.pods import (
    create_pod,
    import_program_image,
    phase,
    wait_until,
)
from tests.support.postgres import TestPostgres
from tests.support.server import none_left

CLIENTS = 4
PAUSE_S = 0.02
WAIT_S = 120.0
BOT = "botpool.test/demo:1"
VALUES: Any = {
    "keepImages": {"enabled": True, "command": [PYTHON, "-c", "import signal; signal.pause()"]},
    "settings": {
        "pools": {
            "google-meet": {
                "backend": "kubernetes",
                "image": BOT,
                "max_size": 2,
                "cpus": 0.05,
                "memory_mb": 128,
            }
        }
    },
}


@dataclass(slots=True)
class Requests:
    """Clients that send requests over kept connections, one after the other, without retries."""

    release: ChartRelease
    answered: int = 0
    lost: list[str] = field(default_factory=list)
    is_stopping: bool = False

    async def send_until_stopped(self) -> None:
        await asyncio.gather(*(self._send() for _ in range(CLIENTS)))

    async def _send(self) -> None:
        async with self.release.client() as user:
            while not self.is_stopping:
                try:
                    response = await user.get("/v1/bots")
                except httpx.TransportError as error:
                    self.lost.append(repr(error))
                else:
                    if response.is_success:
                        self.answered += 1
                    else:
                        self.lost.append(response.text)
                await asyncio.sleep(PAUSE_S)

    async def more(self, count: int) -> None:
        """Wait for more answers."""
        wanted = self.answered + count
        while self.answered < wanted and not self.lost:
            await asyncio.sleep(PAUSE_S)


@pytest.mark.timeout(600)
async def test_rolling_update_loses_no_request(kubernetes: Cluster, postgres: TestPostgres) -> None:
    import_program_image(kubernetes)
    bot = DOCKER_BOT.read_bytes()
    kubernetes.import_image(archive([BOT], [PYTHON, "/bot/bot.py"], {"/bot/bot.py": bot}, user="1"))
    async with chart_release(kubernetes, postgres) as release:
        await release.install(**VALUES)
        await asyncio.to_thread(check_permissions, release)
        await asyncio.to_thread(check_kept_image, release)
        await asyncio.to_thread(check_evictions, release)
        before = release.replicas()
        assert len(before) == 2
        release.insert_api_key()
        bot_id = await send_bot(release, staySeconds=100_000)
        await wait_for_status(release, bot_id, "IN_CALL")
        requests = Requests(release)
        sending = asyncio.create_task(requests.send_until_stopped())
        await requests.more(20)
        await release.install(**VALUES, podAnnotations={"example.org/version": "2"})
        await requests.more(20)
        requests.is_stopping = True
        await sending
        await check_bot_survived(release, bot_id)
        after = release.replicas()
        assert len(after) == 2
        assert not before.keys() & after.keys()
        assert requests.lost == []


async def send_bot(release: ChartRelease, **bot_data: float) -> int:
    body = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": bot_data}
    async with release.client() as user:
        response = await user.post("/v1/bots", json=body)
    assert response.status_code == 201, response.text
    bot_id: int = response.json()["bot"]["id"]
    return bot_id


async def wait_for_status(release: ChartRelease, bot_id: int, status: str) -> None:
    async with release.client() as user:

        async def other_status() -> list[Any]:
            bot = (await user.get(f"/v1/bots/{bot_id}")).json()["bot"]
            return [] if bot["status"] == status else [bot]

        await none_left(f"bots that are not {status}", other_status, within_s=WAIT_S)


async def check_bot_survived(release: ChartRelease, bot_id: int) -> None:
    """The bot is in its first pod and in its call, and it leaves on request."""
    selector = f"botpool.dev/installation={release.installation_id},botpool.dev/slot"
    (pod,) = release.cluster.pods(release.namespace, selector)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    await wait_for_status(release, bot_id, "IN_CALL")
    async with release.client() as user:
        assert (await user.delete(f"/v1/bots/{bot_id}")).is_success
    await wait_for_status(release, bot_id, "DONE")
    await asyncio.to_thread(
        wait_until, lambda: not release.cluster.pods(release.namespace, selector)
    )


def check_permissions(release: ChartRelease) -> None:
    """The service account may do what is documented, and no more."""
    user = f"system:serviceaccount:{release.namespace}:botpool"
    review = {
        "create pods": True,
        "patch pods": True,
        "get pods/log": True,
        "get nodes": True,
        "list nodes": True,
        "watch nodes": False,
        "get secrets": False,
        "create pods/exec": False,
        "delete nodes": False,
    }
    found = {}
    for question in review:
        verb, _, resource = question.partition(" ")
        name, _, subresource = resource.partition("/")
        attributes = {"namespace": release.namespace, "verb": verb, "resource": name}
        body = {"spec": {"user": user, "resourceAttributes": attributes}}
        if subresource:
            attributes["subresource"] = subresource
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answer = release.cluster.kubectl.request("POST", path, body)
        found[question] = answer["status"]["allowed"]
    assert found == review


def check_kept_image(release: ChartRelease) -> None:
    """An idle container of the DaemonSet uses the pool's image on the node."""

    def idle_containers() -> list[str]:
        pods = release.cluster.pods(
            release.namespace, "app.kubernetes.io/component=image-google-meet"
        )
        return [pod["status"]["phase"] for pod in pods]

    wait_until(lambda: idle_containers() == ["Running"])


def check_evictions(release: ChartRelease) -> None:
    """An eviction spares a bot in a call, and takes another one."""
    sleep = "import signal; signal.pause()"
    ours = {"botpool.dev/installation": release.installation_id}
    in_call = {**ours, "botpool.dev/in-call": "true"}
    cluster, namespace = release.cluster, release.namespace
    create_pod(cluster, namespace, "waiting", sleep, ours)
    create_pod(cluster, namespace, "in-call", sleep, in_call)
    wait_until(lambda: phase(cluster, namespace, "in-call") == "Running")
    wait_until(lambda: phase(cluster, namespace, "waiting") == "Running")
    evict(cluster, namespace, "waiting")
    with pytest.raises(ApiError) as refused:
        evict(cluster, namespace, "in-call")
    assert refused.value.status == 429


def evict(cluster: Cluster, namespace: str, name: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": {"gracePeriodSeconds": 1},
    }
    cluster.kubectl.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
