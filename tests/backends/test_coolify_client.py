"""Every way in which Coolify, or what stands before it, can answer, and what it means."""

from contextlib import suppress
from typing import Any

import httpx
import pytest
import structlog

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import (
    BackendError,
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState
from tests.backends.coolify_script import (
    APPLICATION,
    HTML,
    OURS,
    Script,
    list_owned,
    look,
    start_order,
)
from tests.backends.harness import SPEC


@pytest.fixture
def script() -> Script:
    return Script()


UNAVAILABLE = [
    httpx.ConnectError("refused"),
    httpx.ReadTimeout(""),
    httpx.ReadError("reset"),
    httpx.RemoteProtocolError("half"),
    httpx.Response(502, text=HTML),
    httpx.Response(500, json={"message": "Server Error"}),
    httpx.Response(503, json={"message": "Service Unavailable"}),
    httpx.Response(200, text=HTML),
    httpx.Response(200, text='[{"uuid": "ou'),
    httpx.Response(200, text=""),
    httpx.Response(200, json={"message": "hello"}),
    httpx.Response(200, json=[7]),
    httpx.Response(200, json=[{"uuid": "ours"}]),
    httpx.Response(200, json=None),
    httpx.Response(404, text=HTML),
    httpx.Response(404, json={"message": "Not found."}),
    httpx.Response(403, text=HTML),
    httpx.Response(401, text=HTML),
    httpx.Response(302, headers={"Location": "/login"}),
    httpx.Response(418, json={"teapot": True}),
]


@pytest.mark.parametrize("answer", UNAVAILABLE, ids=repr)
async def test_what_coolify_did_not_say_is_no_evidence(script: Script, answer: Any) -> None:
    script.says("GET /applications", answer)
    for call in (look(script), script.backend.list_owned(timeout_s=2)):
        with pytest.raises(BackendUnavailable) as caught:
            await call
        assert not isinstance(caught.value, BudgetExhausted)
        assert "1|emulated" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "said", "setting", "helps"),
    [
        (401, "Unauthenticated.", "backends.coolify.token", "expired"),
        (400, "Invalid token.", "backends.coolify.token", "new one"),
        (403, "Missing required permissions: read", "backends.coolify.token", "abilities"),
        (403, "API is disabled.", "backends.coolify.url", "Switch the API on"),
        (403, "You are not allowed to access the API.", "backends.coolify.url", "address"),
    ],
)
async def test_who_may_not_call_is_told_which_setting_is_wrong(
    script: Script, status: int, said: str, setting: str, helps: str
) -> None:
    script.says("*", {"message": said}, status)
    script.says("GET /applications", {"message": said}, status)
    with pytest.raises(BackendRefused) as caught:
        await list_owned(script)
    assert caught.value.setting == setting
    assert said in caught.value.problem
    assert helps in caught.value.problem
    assert "1|emulated" not in str(caught.value)
    assert script.calls() == ["GET /applications"], "a refusal is not repeated"


async def test_a_moved_coolify_is_a_wrong_setting(script: Script) -> None:
    moved = httpx.Response(301, headers={"Location": "https://coolify/api/v1/applications"})
    script.says("GET /applications", moved)
    with pytest.raises(BackendRefused, match="https://coolify"):
        await list_owned(script)


@pytest.mark.parametrize(
    ("status", "content", "setting"),
    [
        (404, {"message": "Project not found."}, "backends.coolify.project_uuid"),
        (404, {"message": "Server not found."}, "backends.coolify.server_uuid"),
        (404, {"message": "Environment not found."}, "backends.coolify.environment_name"),
        (
            400,
            {"message": "Server has multiple destinations and you do not set destination_uuid."},
            "backends.coolify.destination_uuid",
        ),
        (
            422,
            {"message": "Validation failed.", "errors": {"destination_uuid": "Not of this server"}},
            "backends.coolify.destination_uuid",
        ),
        (
            422,
            {"message": "Validation failed.", "errors": {"docker_registry_image_name": ["Bad."]}},
            "pools.teams.image",
        ),
        (
            422,
            {"message": "Validation failed.", "errors": {"tags": ["This field is not allowed."]}},
            "backends.coolify.url",
        ),
    ],
)
async def test_an_application_that_is_not_made_names_the_setting(
    script: Script, status: int, content: Any, setting: str
) -> None:
    script.says("GET /applications", [])
    script.says("POST /applications/dockerimage", content, status)
    with pytest.raises(BackendRefused) as caught:
        await script.backend.ensure(SPEC, timeout_s=2)
    assert caught.value.setting == setting
    health = await script.backend.check(timeout_s=2)
    assert not health.ok
    assert setting in health.detail


async def test_too_many_requests_are_obeyed_and_not_repeated(script: Script) -> None:
    script.says("GET /applications", httpx.Response(429, headers={"Retry-After": "37"}, text=HTML))
    with pytest.raises(BudgetExhausted) as caught:
        await list_owned(script)
    assert caught.value.retry_after_s == 37
    assert script.budget.paused_s == [37]
    assert len(script.asked) == 1


async def test_reading_is_repeated_once_and_paid_for(script: Script) -> None:
    script.says("GET /applications", httpx.ConnectError("refused"))
    with pytest.raises(BackendUnavailable):
        await list_owned(script)
    assert len(script.asked) == 2
    assert script.budget.taken == [(RequestPurpose.OBSERVE, 1), (RequestPurpose.OBSERVE, 1)]


async def test_writing_is_never_repeated(script: Script) -> None:
    await list_owned(script)
    script.asked.clear()
    script.says("PATCH /applications/ours", httpx.ReadTimeout(""))
    with pytest.raises(BackendUnavailable):
        await script.backend.describe(OURS, "[IDLE]", timeout_s=2)
    assert script.calls() == ["PATCH /applications/ours"]


async def test_every_call_ends_in_time(script: Script) -> None:
    waited: list[float] = []

    def slow(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("", request=request)

    script.says("GET /applications", slow)
    with pytest.raises(BackendUnavailable):
        await script.backend.list_owned(timeout_s=0.1)
    assert waited
    assert max(waited) <= 0.1


async def test_each_request_says_who_asks_and_for_which_bot(script: Script) -> None:
    with pytest.raises(BackendError):
        await script.backend.start(start_order(), timeout_s=2)
    assert script.asked
    for request in script.asked:
        assert request.headers["Accept"] == "application/json"
        assert request.headers["Authorization"] == "Bearer 1|emulated"
        assert request.headers["X-Correlation-ID"] == "correlation-12"


@pytest.mark.parametrize("call", ["ensure", "stop", "delete", "deployment", "describe"])
async def test_whatever_is_asked_for_a_bot_says_for_which(script: Script, call: str) -> None:
    """As the engine bound it: in its log and at the platform it is the same id."""
    backend = script.backend
    with structlog.contextvars.bound_contextvars(correlation_id="bot-7"), suppress(BackendError):
        if call == "ensure":
            await backend.ensure(SPEC, timeout_s=2)
        elif call == "stop":
            await backend.stop(OURS, AssignmentId(7), timeout_s=2)
        elif call == "delete":
            await backend.delete(OURS, timeout_s=2)
        elif call == "deployment":
            await backend.deployment(OURS, DeploymentId("d"), timeout_s=2)
        else:
            await backend.describe(OURS, "[IDLE]", timeout_s=2)
    assert script.asked
    assert {request.headers.get("X-Correlation-ID") for request in script.asked} == {"bot-7"}


async def test_what_is_asked_for_nobody_says_so(script: Script) -> None:
    await script.backend.list_owned(timeout_s=2)
    assert "X-Correlation-ID" not in script.asked[0].headers


class TestGone:
    async def test_only_coolifys_own_404_makes_it_gone(self, script: Script) -> None:
        script.says("GET /applications", [])
        for said in ("Application not found.", "Application not found"):
            script.says("GET /applications/ours", {"message": said}, 404)
            assert await look(script) is ContainerState.GONE

    @pytest.mark.parametrize(
        "answer",
        [
            httpx.Response(404, text=HTML),
            httpx.Response(404, json={"message": "Not found."}),
            httpx.Response(404, json={"error": "no such host"}),
            httpx.Response(410, text=HTML),
        ],
        ids=repr,
    )
    async def test_a_404_of_a_proxy_does_not(self, script: Script, answer: httpx.Response) -> None:
        script.says("GET /applications", [])
        script.says("GET /applications/ours", answer)
        with pytest.raises(BackendUnavailable):
            await look(script)
        script.says("PATCH /applications/ours/envs/bulk", answer)
        script.says("GET /applications", Script.tagged)
        with pytest.raises(BackendUnavailable):
            await script.backend.stop(OURS, AssignmentId(1), timeout_s=2)

    async def test_one_without_our_tag_is_neither_touched_nor_gone(self, script: Script) -> None:
        script.says("GET /applications", [])
        script.says("GET /applications/ours", APPLICATION)
        assert await look(script) is ContainerState.UNKNOWN
        script.asked.clear()
        for call in (
            script.backend.stop(OURS, AssignmentId(1), timeout_s=2),
            script.backend.start(start_order(), timeout_s=2),
            script.backend.describe(OURS, "x", timeout_s=2),
        ):
            with pytest.raises(BackendUnavailable):
                await call
        with pytest.raises(BackendUnavailable):
            await script.backend.delete(OURS, timeout_s=2)
        assert {request.method for request in script.asked} == {"GET"}

    async def test_one_that_was_ours_and_lost_its_tag_still_is(self, script: Script) -> None:
        await list_owned(script)
        script.says("GET /applications", [])
        script.says("GET /applications/ours", APPLICATION | {"status": "running:healthy"})
        assert await look(script) is ContainerState.RUNNING

    async def test_a_list_that_lost_all_does_not_cost_the_budget(self, script: Script) -> None:
        script.says("GET /applications", [])
        script.says("*", {"message": "Application not found."}, 404)
        ids = [ContainerId(f"a{number}") for number in range(50)]
        seen = await script.backend.observe(ids, timeout_s=2)
        states = [seen[each].state for each in ids]
        assert states.count(ContainerState.GONE) == 5
        assert states.count(ContainerState.UNKNOWN) == 45

    async def test_a_coolify_that_ignores_the_tag_is_not_believed(self, script: Script) -> None:
        script.says("GET /applications", [APPLICATION])
        with pytest.raises(BackendRefused, match="tag"):
            await list_owned(script)


class TestLook:
    async def test_an_unreachable_server_proves_nothing(self, script: Script) -> None:
        def tagged(request: httpx.Request) -> httpx.Response:
            is_ours = request.url.params.get("tag") == "botpool-one"
            shown = [APPLICATION | {"server_status": False}]
            return httpx.Response(200, json=shown if is_ours else [])

        script.says("GET /applications", tagged)
        assert await look(script) is ContainerState.UNKNOWN

    @pytest.mark.parametrize("as_object", [False, True])
    async def test_a_deployment_under_way_is_seen(self, script: Script, as_object: bool) -> None:
        deployment = {
            "deployment_uuid": "d1",
            "status": "queued",
            "deployment_url": "/project/p/application/ours/deployment/d1",
        }
        script.says("GET /deployments", {"3": deployment} if as_object else [deployment])
        seen = (await script.backend.observe([OURS], timeout_s=2))[OURS]
        assert seen.state is ContainerState.STARTING
        assert (seen.deployment, seen.deployment_id) == (DeploymentState.QUEUED, "d1")

    async def test_two_requests_look_at_a_whole_pool(self, script: Script) -> None:
        await look(script)
        script.asked.clear()
        script.budget.taken.clear()
        await script.backend.observe([OURS] * 100, timeout_s=2)
        assert script.calls() == ["GET /deployments", "GET /applications"]
        assert script.budget.taken == [(RequestPurpose.OBSERVE, 2)]

    async def test_how_a_deployment_ended_can_be_asked(self, script: Script) -> None:
        async def ask() -> DeploymentState | None:
            return await script.backend.deployment(OURS, DeploymentId("d1"), timeout_s=2)

        script.says("GET /deployments/d1", {"deployment_uuid": "d1", "status": "failed"})
        assert await ask() is DeploymentState.FAILED
        script.says("GET /deployments/d1", {"message": "Deployment not found."}, 404)
        assert await ask() is None
        script.says("GET /deployments/d1", {"message": "Not found."}, 404)
        with pytest.raises(BackendUnavailable):
            await ask()


class TestHealth:
    async def test_a_page_in_place_of_coolify_is_not_healthy(self, script: Script) -> None:
        script.says("GET /version", httpx.Response(200, text=HTML))
        with pytest.raises(BackendUnavailable):
            await script.backend.check(timeout_s=2)

    async def test_a_missing_ability_is_told_until_it_is_given(self, script: Script) -> None:
        said = {"message": "Missing required permissions: write"}
        script.says("PATCH /applications/ours", said, 403)
        with pytest.raises(BackendRefused):
            await script.backend.describe(OURS, "x", timeout_s=2)
        health = await script.backend.check(timeout_s=2)
        assert not health.ok
        assert "Missing required permissions: write" in health.detail
        script.says("PATCH /applications/ours", {"uuid": "ours"})
        await script.backend.describe(OURS, "x", timeout_s=2)
        assert (await script.backend.check(timeout_s=2)).ok

    @pytest.mark.parametrize(
        ("path", "said", "setting"),
        [
            ("/servers/emulated-server", "Server not found.", "server_uuid"),
            ("/projects/emulated-project/production", "Project not found.", "project_uuid"),
            ("/projects/emulated-project/production", "Environment not found.", "environment_name"),
        ],
    )
    async def test_a_place_that_is_not_there_is_told(
        self, script: Script, path: str, said: str, setting: str
    ) -> None:
        script.says(f"GET {path}", {"message": said}, 404)
        health = await script.backend.check(timeout_s=2)
        assert not health.ok
        assert f"backends.coolify.{setting}" in health.detail
