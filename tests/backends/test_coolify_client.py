"""Every way in which Coolify, or what stands before it, can answer, and what it means."""

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from coolify_harness import CountingBudget, config
from harness import SPEC

from botpool.backends.coolify import CoolifyBackend
from botpool.backends.protocol import Purpose, StartOrder
from botpool.domain.errors import (
    BackendError,
    BackendRefused,
    BackendUnavailable,
    BudgetSpent,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState

Answer = Callable[[httpx.Request], httpx.Response]
OURS = ContainerId("ours")
APPLICATION = {
    "uuid": "ours",
    "name": SPEC.name,
    "status": "exited:unhealthy",
    "server_status": True,
    "docker_registry_image_name": "bot",
    "docker_registry_image_tag": "1",
    "limits_cpus": "1",
    "limits_memory": "2048m",
    "created_at": "2026-08-01T00:00:00.000000Z",
}
FIELDS = {"key", "value", "is_preview", "is_literal", "is_multiline", "is_shown_once"}
HTML = "<!DOCTYPE html><html><body>Not here</body></html>"


class Script:
    """A Coolify that answers as it is told: by method and path, later words over earlier ones."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.budget = CountingBudget()
        self._answers: dict[str, Answer] = {}
        self.says("GET /applications", self.tagged)
        self.says("GET /deployments", [])
        self.says("GET /deployments/applications/ours", {"count": 0, "deployments": []})
        self.variables: dict[str, str] = {}
        self.says("GET /applications/ours/envs", self.read_variables)
        self.says("PATCH /applications/ours/envs/bulk", self.write_variables)
        self.says("GET /version", httpx.Response(200, text="4.3.2"))
        self.backend = CoolifyBackend(
            config(), self.budget, transport=httpx.MockTransport(self._answer)
        )

    @staticmethod
    def tagged(request: httpx.Request) -> httpx.Response:
        is_ours = request.url.params.get("tag") == "botpool-one"
        return httpx.Response(200, json=[APPLICATION] if is_ours else [])

    def read_variables(self, request: httpx.Request) -> httpx.Response:
        shown = [
            {"key": key, "value": value, "is_preview": False}
            for key, value in self.variables.items()
        ]
        return httpx.Response(200, json=shown)

    def write_variables(self, request: httpx.Request) -> httpx.Response:
        written = json.loads(request.content)["data"]
        for item in written:
            assert set(item) == FIELDS
            self.variables[item["key"]] = item["value"]
        return httpx.Response(201, json=written)

    def says(self, call: str, answer: Any, status: int = 200) -> None:
        def respond(request: httpx.Request) -> httpx.Response:
            if callable(answer):
                return answer(request)  # type: ignore[no-any-return]
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, httpx.Response):
                return answer
            return httpx.Response(status, json=answer)

        self._answers[call] = respond

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        path = request.url.path.removeprefix("/api/v1")
        answer = self._answers.get(f"{request.method} {path}") or self._answers.get("*")
        if answer is None:
            return httpx.Response(404, json={"message": "Not found."})
        return answer(request)

    def calls(self) -> list[str]:
        return [f"{each.method} {each.url.path.removeprefix('/api/v1')}" for each in self.asked]


@pytest.fixture
def script() -> Script:
    return Script()


def start_order(number: int = 12) -> StartOrder:
    return StartOrder(
        container_id=OURS,
        assignment_id=AssignmentId(number),
        correlation_id="correlation-12",
        environment={"BOT_DATA": "{}"},
    )


async def list_owned(script: Script) -> None:
    await script.backend.list_owned(timeout_s=2)


async def look(script: Script) -> ContainerState:
    return (await script.backend.look([OURS], timeout_s=2))[OURS].state


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
        assert not isinstance(caught.value, BudgetSpent)
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
    with pytest.raises(BudgetSpent) as caught:
        await list_owned(script)
    assert caught.value.retry_after_s == 37
    assert script.budget.paused_s == [37]
    assert len(script.asked) == 1


async def test_reading_is_repeated_once_and_paid_for(script: Script) -> None:
    script.says("GET /applications", httpx.ConnectError("refused"))
    with pytest.raises(BackendUnavailable):
        await list_owned(script)
    assert len(script.asked) == 2
    assert script.budget.taken == [(Purpose.LOOK, 1), (Purpose.LOOK, 1)]


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
        seen = await script.backend.look(ids, timeout_s=2)
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
        seen = (await script.backend.look([OURS], timeout_s=2))[OURS]
        assert seen.state is ContainerState.STARTING
        assert (seen.deployment, seen.deployment_id) == (DeploymentState.QUEUED, "d1")

    async def test_two_requests_look_at_a_whole_pool(self, script: Script) -> None:
        await look(script)
        script.asked.clear()
        script.budget.taken.clear()
        await script.backend.look([OURS] * 100, timeout_s=2)
        assert script.calls() == ["GET /deployments", "GET /applications"]
        assert script.budget.taken == [(Purpose.LOOK, 2)]

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


class TestStart:
    @pytest.fixture
    def script(self) -> Script:
        script = Script()
        script.says("POST /applications/ours/start", {"message": "x", "deployment_uuid": "d1"})
        script.says("POST /applications/ours/stop", {"message": "x"})
        script.says("GET /deployments/d1", {"deployment_uuid": "d1", "status": "queued"})
        return script

    async def start(self, script: Script, number: int = 12) -> str | None:
        return await script.backend.start(start_order(number), timeout_s=2)

    def starts(self, script: Script) -> int:
        return script.calls().count("POST /applications/ours/start")

    def has_deployments(self, script: Script, **deployments: str) -> None:
        """By uuid and status, the newest first."""
        listed = [{"deployment_uuid": uuid, "status": s} for uuid, s in deployments.items()]
        content = {"count": len(listed), "deployments": listed}
        script.says("GET /deployments/applications/ours", content)

    def cancels(self, script: Script, status: int) -> None:
        """The cancel of d1 works, whatever it answers."""

        def answer(request: httpx.Request) -> httpx.Response:
            self.has_deployments(script, d1="cancelled-by-user")
            return httpx.Response(status, json={"message": "x"})

        script.says("POST /deployments/d1/cancel", answer)

    async def test_a_start_is_six_requests(self, script: Script) -> None:
        await list_owned(script)
        script.asked.clear()
        script.budget.taken.clear()
        assert await self.start(script) == "d1"
        assert len(script.asked) == 6
        assert script.budget.taken == [(Purpose.START, 6)]

    @pytest.mark.parametrize("status", ["queued", "in_progress", "finished", "failed"])
    async def test_one_that_was_issued_is_found_by_its_mark(
        self, script: Script, status: str
    ) -> None:
        script.says("POST /applications/ours/start", httpx.ReadTimeout(""))
        self.has_deployments(script, d0="finished")
        with pytest.raises(BackendUnavailable):
            await self.start(script)
        assert script.variables["BOTPOOL_START_MARK"] == "12:d0"
        self.has_deployments(script, d1=status, d0="finished")
        assert await self.start(script) == "d1"
        assert self.starts(script) == 1

    async def test_one_that_another_replica_issued_meanwhile_is_found(self, script: Script) -> None:
        """And failed at once, so that Coolify would take a second one."""

        def read(request: httpx.Request) -> httpx.Response:
            script.variables |= {"BOTPOOL_START_MARK": "12:d0", "BOTPOOL_ASSIGNMENT": "12"}
            self.has_deployments(script, d1="failed", d0="finished")
            return script.read_variables(request)

        self.has_deployments(script, d0="finished")
        script.says("GET /applications/ours/envs", read)
        assert await self.start(script) == "d1"
        assert not self.starts(script)

    async def test_a_process_that_froze_in_the_middle_sends_nothing_more(
        self, script: Script
    ) -> None:
        def freeze(request: httpx.Request) -> httpx.Response:
            time.sleep(0.15)
            return script.write_variables(request)

        await list_owned(script)
        script.says("PATCH /applications/ours/envs/bulk", freeze)
        with pytest.raises(BackendUnavailable, match="did not end within"):
            await script.backend.start(start_order(), timeout_s=0.1)
        assert script.calls()[-1] == "PATCH /applications/ours/envs/bulk"

    async def test_one_that_never_arrived_is_issued_again(self, script: Script) -> None:
        script.says("POST /applications/ours/start", httpx.Response(502, text=HTML))
        with pytest.raises(BackendUnavailable):
            await self.start(script)
        assert self.starts(script) == 1, "not in the same call"
        script.says("POST /applications/ours/start", {"message": "x", "deployment_uuid": "d1"})
        assert await self.start(script) == "d1"
        assert self.starts(script) == 2

    async def test_an_old_deployment_is_not_taken_for_this_start(self, script: Script) -> None:
        self.has_deployments(script, d0="finished")
        assert await self.start(script) == "d1"

    async def test_a_phantom_is_not_believed(self, script: Script) -> None:
        script.says("GET /deployments/d1", {"message": "Deployment not found."}, 404)
        with pytest.raises(BudgetSpent) as caught:
            await self.start(script)
        assert 15 <= caught.value.retry_after_s <= 60
        script.says("POST /applications/ours/start", {"message": "x", "deployment_uuid": "d2"})
        script.says("GET /deployments/d2", {"deployment_uuid": "d2", "status": "queued"})
        assert await self.start(script) == "d2"

    async def test_without_a_uuid_the_right_one_is_found(self, script: Script) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            self.has_deployments(script, d2="queued", d0="finished")
            return httpx.Response(200, json={"message": "Deployment already queued."})

        self.has_deployments(script, d0="finished")
        script.says("POST /applications/ours/start", answer)
        assert await self.start(script) == "d2"

    async def test_without_a_uuid_and_a_deployment_it_is_tried_again(self, script: Script) -> None:
        script.says("POST /applications/ours/start", {"message": "Deployment already queued."})
        self.has_deployments(script, d0="finished")
        with pytest.raises(BackendUnavailable, match="already queued"):
            await self.start(script)

    async def test_a_stop_that_came_in_between_is_obeyed(self, script: Script) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            script.variables["BOTPOOL_STOPPED_THROUGH"] = "12"
            self.has_deployments(script, d1="queued")
            return httpx.Response(200, json={"message": "x", "deployment_uuid": "d1"})

        script.says("POST /applications/ours/start", answer)
        self.cancels(script, 200)
        with pytest.raises(StartSuperseded):
            await self.start(script)
        assert script.calls()[-3:] == [
            "POST /deployments/d1/cancel",
            "GET /deployments/applications/ours",
            "POST /applications/ours/stop",
        ]

    async def test_nothing_is_started_while_another_is_under_way(self, script: Script) -> None:
        self.has_deployments(script, d0="in_progress")
        with pytest.raises(StartSuperseded):
            await self.start(script)
        assert not self.starts(script)

    async def test_what_runs_unfenced_keeps_its_place(self, script: Script) -> None:
        await self.start(script, 11)
        script.asked.clear()
        self.has_deployments(script, d1="finished")
        script.says("GET /applications/ours", APPLICATION | {"status": "running:unknown"})
        with pytest.raises(StartSuperseded):
            await self.start(script)
        script.says("GET /applications/ours", APPLICATION | {"server_status": False})
        with pytest.raises(BackendUnavailable):
            await self.start(script)
        assert not self.starts(script)

    async def test_half_an_environment_is_never_started(self, script: Script) -> None:
        def half(request: httpx.Request) -> httpx.Response:
            (item, *_) = json.loads(request.content)["data"]
            script.variables[item["key"]] = item["value"]
            return httpx.Response(201, json=[item])

        script.says("PATCH /applications/ours/envs/bulk", half)
        with pytest.raises(BackendUnavailable, match="not written"):
            await self.start(script)
        assert not self.starts(script)

    async def test_an_answer_without_variables_is_read_back(self, script: Script) -> None:
        def told(request: httpx.Request) -> httpx.Response:
            script.write_variables(request)
            return httpx.Response(201, json={"message": "Environment variables updated."})

        script.says("PATCH /applications/ours/envs/bulk", told)
        assert await self.start(script) == "d1"

    async def test_a_token_that_may_not_see_values_is_refused(self, script: Script) -> None:
        script.says("PATCH /applications/ours/envs/bulk", [{"key": "BOTPOOL_ASSIGNMENT"}], 201)
        with pytest.raises(BackendRefused, match="read:sensitive") as caught:
            await self.start(script)
        assert caught.value.setting == "backends.coolify.token"
        assert not self.starts(script)
        assert not (await script.backend.check(timeout_s=2)).ok

    async def test_where_only_get_starts_it_is_remembered(self, script: Script) -> None:
        script.says("POST /applications/ours/start", {"message": "not supported"}, 405)
        script.says("POST /applications/ours/stop", {"message": "not supported"}, 405)
        script.says("GET /applications/ours/start", {"message": "x", "deployment_uuid": "d1"})
        script.says("GET /applications/ours/stop", {"message": "x"})
        assert await self.start(script) == "d1"
        script.asked.clear()
        await script.backend.stop(OURS, AssignmentId(12), timeout_s=2)
        assert script.calls()[-1] == "GET /applications/ours/stop"
        assert "POST /applications/ours/stop" not in script.calls()

    @pytest.mark.parametrize("status", [200, 400, 404, 500])
    async def test_a_stop_cancels_first_whatever_the_cancel_answers(
        self, script: Script, status: int
    ) -> None:
        self.has_deployments(script, d1="in_progress", d0="finished")
        self.cancels(script, status)
        await script.backend.stop(OURS, AssignmentId(12), timeout_s=2)
        assert script.variables["BOTPOOL_STOPPED_THROUGH"] == "12"
        assert script.calls()[-5:] == [
            "PATCH /applications/ours/envs/bulk",
            "GET /deployments/applications/ours",
            "POST /deployments/d1/cancel",
            "GET /deployments/applications/ours",
            "POST /applications/ours/stop",
        ]
        assert script.asked[-1].url.params["docker_cleanup"] == "false"

    async def test_a_stop_is_not_sent_while_a_deployment_would_undo_it(
        self, script: Script
    ) -> None:
        self.has_deployments(script, d1="in_progress")
        script.says("POST /deployments/d1/cancel", {"message": "x"})
        with pytest.raises(StillRunning):
            await script.backend.stop(OURS, AssignmentId(12), timeout_s=2)
        assert "POST /applications/ours/stop" not in script.calls()


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
