"""Responses of Coolify or of a proxy before it, and their interpretation."""

from contextlib import suppress
from typing import Any

import httpx
import pytest
import structlog

from botpool.backends.coolify import CoolifyBackend
from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import (
    BackendError,
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    HealthCheckFailed,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState
from tests.backends.coolify_harness import config
from tests.backends.harness import SPEC
from tests.backends.scripted_coolify import (
    APPLICATION,
    HTML,
    OURS,
    ScriptedCoolify,
    list_owned,
    observe,
    start_request,
)
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT


@pytest.fixture
def coolify() -> ScriptedCoolify:
    return ScriptedCoolify()


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


@pytest.mark.parametrize("response", UNAVAILABLE, ids=repr)
async def test_response_that_is_not_coolifys_is_unavailable(
    coolify: ScriptedCoolify, response: Any
) -> None:
    coolify.respond("GET /applications", response)
    for call in (observe(coolify), coolify.backend.list_owned(timeout_s=2)):
        with pytest.raises(BackendUnavailable) as caught:
            await call
        assert not isinstance(caught.value, BudgetExhausted)
        assert "1|emulated" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message", "setting", "remedy"),
    [
        (401, "Unauthenticated.", "backends.coolify.token", "expired"),
        (400, "Invalid token.", "backends.coolify.token", "Create one"),
        (403, "Missing required permissions: read", "backends.coolify.token", "abilities"),
        (403, "API is disabled.", "backends.coolify.url", "Enable the API"),
        (403, "You are not allowed to access the API.", "backends.coolify.url", "address"),
    ],
)
async def test_authorization_error_names_the_setting(
    coolify: ScriptedCoolify, status: int, message: str, setting: str, remedy: str
) -> None:
    coolify.respond("*", {"message": message}, status)
    coolify.respond("GET /applications", {"message": message}, status)
    with pytest.raises(BackendRefused) as caught:
        await list_owned(coolify)
    assert caught.value.setting == setting
    assert message in caught.value.problem
    assert remedy in caught.value.problem
    assert "1|emulated" not in str(caught.value)
    assert coolify.calls() == ["GET /applications"], "a refused call is not repeated"


async def test_redirect_names_the_url_setting(coolify: ScriptedCoolify) -> None:
    moved = httpx.Response(301, headers={"Location": "https://coolify/api/v1/applications"})
    coolify.respond("GET /applications", moved)
    with pytest.raises(BackendRefused, match="Coolify redirects") as caught:
        await list_owned(coolify)
    assert "https://" not in str(caught.value), "users see this reason, but not the address"
    health = await coolify.backend.check(timeout_s=2)
    assert (health.ok, "https://" in health.detail) == (False, False)
    assert (
        health.address == "http://coolify/api/v1 redirects to https://coolify/api/v1/applications"
    )


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
async def test_rejected_create_names_the_setting(
    coolify: ScriptedCoolify, status: int, content: Any, setting: str
) -> None:
    coolify.respond("GET /applications", [])
    coolify.respond("POST /applications/dockerimage", content, status)
    with pytest.raises(BackendRefused) as caught:
        await coolify.backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=2)
    assert caught.value.setting == setting
    health = await coolify.backend.check(timeout_s=2)
    assert not health.ok
    assert setting in health.detail


async def test_429_pauses_the_budget_and_is_not_repeated(coolify: ScriptedCoolify) -> None:
    coolify.respond(
        "GET /applications", httpx.Response(429, headers={"Retry-After": "37"}, text=HTML)
    )
    with pytest.raises(BudgetExhausted) as caught:
        await list_owned(coolify)
    assert caught.value.retry_after_s == 37
    assert coolify.budget.paused_s == [37]
    assert len(coolify.requests) == 1


async def test_read_is_repeated_once_and_takes_budget(coolify: ScriptedCoolify) -> None:
    coolify.respond("GET /applications", httpx.ConnectError("refused"))
    with pytest.raises(BackendUnavailable):
        await list_owned(coolify)
    assert len(coolify.requests) == 2
    assert coolify.budget.taken == [(RequestPurpose.OBSERVE, 1), (RequestPurpose.OBSERVE, 1)]


async def test_write_is_never_repeated(coolify: ScriptedCoolify) -> None:
    await list_owned(coolify)
    coolify.requests.clear()
    coolify.respond("PATCH /applications/ours", httpx.ReadTimeout(""))
    with pytest.raises(BackendUnavailable):
        await coolify.backend.describe(OURS, "[IDLE]", timeout_s=2)
    assert coolify.calls() == ["PATCH /applications/ours"]


async def test_request_timeout_is_the_rest_of_the_operation(coolify: ScriptedCoolify) -> None:
    waited: list[float] = []

    def slow(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("", request=request)

    coolify.respond("GET /applications", slow)
    with pytest.raises(BackendUnavailable):
        await coolify.backend.list_owned(timeout_s=0.1)
    assert waited
    assert max(waited) <= 0.1


async def test_start_requests_carry_token_and_correlation_id(coolify: ScriptedCoolify) -> None:
    with pytest.raises(BackendError):
        await coolify.backend.start(start_request(), timeout_s=2)
    assert coolify.requests
    for request in coolify.requests:
        assert request.headers["Accept"] == "application/json"
        assert request.headers["Authorization"] == "Bearer 1|emulated"
        assert request.headers["X-Correlation-ID"] == "correlation-12"


@pytest.mark.parametrize("call", ["ensure", "stop", "delete", "deployment", "describe"])
async def test_requests_carry_correlation_id_of_log_context(
    coolify: ScriptedCoolify, call: str
) -> None:
    """The log and Coolify get the same id."""
    backend = coolify.backend
    with structlog.contextvars.bound_contextvars(correlation_id="bot-7"), suppress(BackendError):
        if call == "ensure":
            await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=2)
        elif call == "stop":
            await backend.stop(OURS, AssignmentId(7), timeout_s=2)
        elif call == "delete":
            await backend.delete(OURS, stop_through=ANY_ASSIGNMENT, timeout_s=2)
        elif call == "deployment":
            await backend.deployment(OURS, DeploymentId("d"), timeout_s=2)
        else:
            await backend.describe(OURS, "[IDLE]", timeout_s=2)
    assert coolify.requests
    assert {request.headers.get("X-Correlation-ID") for request in coolify.requests} == {"bot-7"}


async def test_request_without_bot_has_no_correlation_id(coolify: ScriptedCoolify) -> None:
    await coolify.backend.list_owned(timeout_s=2)
    assert "X-Correlation-ID" not in coolify.requests[0].headers


class TestGone:
    async def test_coolifys_404_means_gone(self, coolify: ScriptedCoolify) -> None:
        coolify.respond("GET /applications", [])
        for message in ("Application not found.", "Application not found"):
            coolify.respond("GET /applications/ours", {"message": message}, 404)
            assert await observe(coolify) is ContainerState.GONE

    @pytest.mark.parametrize(
        "response",
        [
            httpx.Response(404, text=HTML),
            httpx.Response(404, json={"message": "Not found."}),
            httpx.Response(404, json={"error": "no such host"}),
            httpx.Response(410, text=HTML),
        ],
        ids=repr,
    )
    async def test_404_of_a_proxy_is_unavailable(
        self, coolify: ScriptedCoolify, response: httpx.Response
    ) -> None:
        coolify.respond("GET /applications", [])
        coolify.respond("GET /applications/ours", response)
        with pytest.raises(BackendUnavailable):
            await observe(coolify)
        coolify.respond("PATCH /applications/ours/envs/bulk", response)
        coolify.respond("GET /applications", ScriptedCoolify.tagged)
        with pytest.raises(BackendUnavailable):
            await coolify.backend.stop(OURS, AssignmentId(1), timeout_s=2)

    async def test_application_without_our_tag_is_neither_touched_nor_gone(
        self, coolify: ScriptedCoolify
    ) -> None:
        coolify.respond("GET /applications", [])
        coolify.respond("GET /applications/ours", APPLICATION)
        assert await observe(coolify) is ContainerState.UNKNOWN
        coolify.requests.clear()
        for call in (
            coolify.backend.stop(OURS, AssignmentId(1), timeout_s=2),
            coolify.backend.start(start_request(), timeout_s=2),
            coolify.backend.describe(OURS, "x", timeout_s=2),
        ):
            with pytest.raises(BackendUnavailable):
                await call
        with pytest.raises(BackendUnavailable):
            await coolify.backend.delete(OURS, stop_through=ANY_ASSIGNMENT, timeout_s=2)
        assert {request.method for request in coolify.requests} == {"GET"}

    async def test_known_application_that_lost_its_tag_is_still_observed(
        self, coolify: ScriptedCoolify
    ) -> None:
        await list_owned(coolify)
        coolify.respond("GET /applications", [])
        coolify.respond("GET /applications/ours", APPLICATION | {"status": "running:healthy"})
        assert await observe(coolify) is ContainerState.RUNNING

    async def test_observation_requests_at_most_five_unlisted_applications(
        self, coolify: ScriptedCoolify
    ) -> None:
        coolify.respond("GET /applications", [])
        coolify.respond("*", {"message": "Application not found."}, 404)
        ids = [ContainerId(f"a{number}") for number in range(50)]
        observed = await coolify.backend.observe(ids, timeout_s=2)
        states = [observed[container_id].state for container_id in ids]
        assert states.count(ContainerState.GONE) == 5
        assert states.count(ContainerState.UNKNOWN) == 45

    async def test_coolify_that_ignores_the_tag_filter_is_refused(
        self, coolify: ScriptedCoolify
    ) -> None:
        coolify.respond("GET /applications", [APPLICATION])
        with pytest.raises(BackendRefused, match="tag"):
            await list_owned(coolify)


class TestObserve:
    async def test_status_of_unreachable_server_is_unknown(self, coolify: ScriptedCoolify) -> None:
        def tagged(request: httpx.Request) -> httpx.Response:
            is_ours = request.url.params.get("tag") == "botpool-one"
            shown = [APPLICATION | {"server_status": False}]
            return httpx.Response(200, json=shown if is_ours else [])

        coolify.respond("GET /applications", tagged)
        assert await observe(coolify) is ContainerState.UNKNOWN

    @pytest.mark.parametrize("as_object", [False, True])
    async def test_open_deployment_is_observed(
        self, coolify: ScriptedCoolify, as_object: bool
    ) -> None:
        deployment = {
            "deployment_uuid": "d1",
            "status": "queued",
            "deployment_url": "/project/p/application/ours/deployment/d1",
        }
        coolify.respond("GET /deployments", {"3": deployment} if as_object else [deployment])
        observed = (await coolify.backend.observe([OURS], timeout_s=2))[OURS]
        assert observed.state is ContainerState.STARTING
        assert (observed.deployment, observed.deployment_id) == (DeploymentState.QUEUED, "d1")

    async def test_observation_of_many_applications_takes_two_requests(
        self, coolify: ScriptedCoolify
    ) -> None:
        await observe(coolify)
        coolify.requests.clear()
        coolify.budget.taken.clear()
        await coolify.backend.observe([OURS] * 100, timeout_s=2)
        assert coolify.calls() == ["GET /deployments", "GET /applications"]
        assert coolify.budget.taken == [(RequestPurpose.OBSERVE, 2)]

    async def test_deployment_returns_final_state_or_none(self, coolify: ScriptedCoolify) -> None:
        async def ask() -> DeploymentState | None:
            return await coolify.backend.deployment(OURS, DeploymentId("d1"), timeout_s=2)

        coolify.respond("GET /deployments/d1", {"deployment_uuid": "d1", "status": "failed"})
        assert await ask() is DeploymentState.FAILED
        coolify.respond("GET /deployments/d1", {"message": "Deployment not found."}, 404)
        assert await ask() is None
        coolify.respond("GET /deployments/d1", {"message": "Not found."}, 404)
        with pytest.raises(BackendUnavailable):
            await ask()


class TestHealth:
    async def test_html_page_instead_of_version_is_unavailable(
        self, coolify: ScriptedCoolify
    ) -> None:
        coolify.respond("GET /version", httpx.Response(200, text=HTML))
        with pytest.raises(BackendUnavailable):
            await coolify.backend.check(timeout_s=2)

    async def test_404_for_the_version_names_the_address_setting(
        self, coolify: ScriptedCoolify
    ) -> None:
        coolify.respond("GET /version", {"message": "Not found."}, 404)
        health = await coolify.backend.check(timeout_s=2)
        assert not health.ok
        assert health.detail.startswith("backends.coolify.url: ")
        assert health.address == "http://coolify/api/v1"

    async def test_outage_names_the_address_setting(self, coolify: ScriptedCoolify) -> None:
        coolify.respond("GET /version", httpx.ConnectError("All connection attempts failed"))
        with pytest.raises(HealthCheckFailed, match=r"check backends\.coolify\.url") as caught:
            await coolify.backend.check(timeout_s=2)
        assert caught.value.address == "http://coolify/api/v1"

    @pytest.mark.parametrize("version", ["4.3.6", "4.2.99", "v4.0.0-beta.420", "3.12.32"])
    async def test_check_names_the_minimum_version(
        self, coolify: ScriptedCoolify, version: str
    ) -> None:
        coolify.respond("GET /version", httpx.Response(200, text=version))
        health = await coolify.backend.check(timeout_s=2)
        assert not health.ok
        assert f"Coolify {version} is too old. Update it to 4.3.7" in health.detail

    @pytest.mark.parametrize("version", ["4.3.7", "v4.3.11", "4.10.0", "5.0.0-beta.1"])
    async def test_newer_versions_are_accepted(
        self, coolify: ScriptedCoolify, version: str
    ) -> None:
        coolify.respond("GET /version", httpx.Response(200, text=version))
        assert (await coolify.backend.check(timeout_s=2)).ok

    async def test_limit_of_deployments_is_derived_from_the_servers_builds(
        self, coolify: ScriptedCoolify
    ) -> None:
        assert coolify.backend.concurrent_starts == 4
        settings = {"settings": {"concurrent_builds": 7, "is_reachable": True}}
        coolify.respond("GET /servers/emulated-server", settings)
        health = await coolify.backend.check(timeout_s=2)
        assert coolify.backend.concurrent_starts == 9
        assert "concurrent_builds 7: 9 deployments at a time" in health.detail

    async def test_limit_of_deployments_that_is_set_stays(self, coolify: ScriptedCoolify) -> None:
        transport = httpx.MockTransport(coolify._answer)
        backend = CoolifyBackend(
            config(concurrent_deployments=3), coolify.budget, transport=transport
        )
        coolify.respond("GET /servers/emulated-server", {"settings": {"concurrent_builds": 7}})
        health = await backend.check(timeout_s=2)
        assert backend.concurrent_starts == 3
        assert "concurrent_builds 7: 3 deployments at a time" in health.detail

    async def test_check_reports_missing_ability_until_a_call_succeeds(
        self, coolify: ScriptedCoolify
    ) -> None:
        message = {"message": "Missing required permissions: write"}
        coolify.respond("PATCH /applications/ours", message, 403)
        with pytest.raises(BackendRefused):
            await coolify.backend.describe(OURS, "x", timeout_s=2)
        health = await coolify.backend.check(timeout_s=2)
        assert not health.ok
        assert "Missing required permissions: write" in health.detail
        coolify.respond("PATCH /applications/ours", {"uuid": "ours"})
        await coolify.backend.describe(OURS, "x", timeout_s=2)
        assert (await coolify.backend.check(timeout_s=2)).ok

    @pytest.mark.parametrize(
        ("path", "message", "setting"),
        [
            ("/servers/emulated-server", "Server not found.", "server_uuid"),
            ("/projects/emulated-project/production", "Project not found.", "project_uuid"),
            ("/projects/emulated-project/production", "Environment not found.", "environment_name"),
        ],
    )
    async def test_check_names_setting_of_missing_server_or_environment(
        self, coolify: ScriptedCoolify, path: str, message: str, setting: str
    ) -> None:
        coolify.respond(f"GET {path}", {"message": message}, 404)
        health = await coolify.backend.check(timeout_s=2)
        assert not health.ok
        assert f"backends.coolify.{setting}" in health.detail
