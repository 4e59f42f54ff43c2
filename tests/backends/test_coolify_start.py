"""The requests of starts and stops, against a scripted Coolify."""

import json
import time

import httpx
import pytest

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId
from tests.backends.scripted_coolify import (
    APPLICATION,
    HTML,
    OURS,
    ScriptedCoolify,
    list_owned,
    start_request,
)


class TestStart:
    @pytest.fixture
    def coolify(self) -> ScriptedCoolify:
        coolify = ScriptedCoolify()
        coolify.respond("POST /applications/ours/start", {"message": "x", "deployment_uuid": "d1"})
        coolify.respond("POST /applications/ours/stop", {"message": "x"})
        coolify.respond("GET /deployments/d1", {"deployment_uuid": "d1", "status": "queued"})
        return coolify

    async def start(self, coolify: ScriptedCoolify, number: int = 12) -> str | None:
        return await coolify.backend.start(start_request(number), timeout_s=2)

    def starts(self, coolify: ScriptedCoolify) -> int:
        return coolify.calls().count("POST /applications/ours/start")

    def has_deployments(self, coolify: ScriptedCoolify, **deployments: str) -> None:
        """Set the deployments by uuid and status, newest first."""
        listed = [{"deployment_uuid": uuid, "status": s} for uuid, s in deployments.items()]
        content = {"count": len(listed), "deployments": listed}
        coolify.respond("GET /deployments/applications/ours", content)

    def cancels(self, coolify: ScriptedCoolify, status: int) -> None:
        """Let the cancel of d1 work and answer `status`."""

        def respond(request: httpx.Request) -> httpx.Response:
            self.has_deployments(coolify, d1="cancelled-by-user")
            return httpx.Response(status, json={"message": "x"})

        coolify.respond("POST /deployments/d1/cancel", respond)

    async def test_first_start_reads_its_new_variables_back(self, coolify: ScriptedCoolify) -> None:
        await list_owned(coolify)
        coolify.requests.clear()
        await self.start(coolify)
        calls = coolify.calls()
        written = calls.index("PATCH /applications/ours/envs/bulk")
        assert calls[written + 1 : written + 3] == [
            "GET /applications/ours/envs",
            "POST /applications/ours/start",
        ]
        assert len(calls) == 7

    async def test_later_start_takes_six_requests(self, coolify: ScriptedCoolify) -> None:
        await self.start(coolify)
        coolify.variables |= {"BOTPOOL_ASSIGNMENT": "11", "BOTPOOL_STOPPED_THROUGH": "11"}
        coolify.requests.clear()
        coolify.budget.taken.clear()
        assert await self.start(coolify) == "d1"
        assert len(coolify.requests) == 6
        assert coolify.budget.taken == [(RequestPurpose.START, 6)]

    @pytest.mark.parametrize("status", ["queued", "in_progress", "finished", "failed"])
    async def test_issued_start_is_found_by_its_mark(
        self, coolify: ScriptedCoolify, status: str
    ) -> None:
        coolify.respond("POST /applications/ours/start", httpx.ReadTimeout(""))
        self.has_deployments(coolify, d0="finished")
        with pytest.raises(BackendUnavailable):
            await self.start(coolify)
        assert coolify.variables["BOTPOOL_START_MARK"] == "12:d0"
        self.has_deployments(coolify, d1=status, d0="finished")
        assert await self.start(coolify) == "d1"
        assert self.starts(coolify) == 1

    async def test_start_of_another_replica_is_found(self, coolify: ScriptedCoolify) -> None:
        """The deployment failed at once, so Coolify would accept a second one."""

        def read(request: httpx.Request) -> httpx.Response:
            coolify.variables |= {"BOTPOOL_START_MARK": "12:d0", "BOTPOOL_ASSIGNMENT": "12"}
            self.has_deployments(coolify, d1="failed", d0="finished")
            return coolify.read_variables(request)

        self.has_deployments(coolify, d0="finished")
        coolify.respond("GET /applications/ours/envs", read)
        assert await self.start(coolify) == "d1"
        assert not self.starts(coolify)

    async def test_frozen_process_sends_no_request_after_the_deadline(
        self, coolify: ScriptedCoolify
    ) -> None:
        def freeze(request: httpx.Request) -> httpx.Response:
            time.sleep(1.2)
            return coolify.write_variables(request)

        await list_owned(coolify)
        coolify.respond("PATCH /applications/ours/envs/bulk", freeze)
        with pytest.raises(BackendUnavailable, match="did not end within"):
            await coolify.backend.start(start_request(), timeout_s=1.0)
        assert coolify.calls()[-1] == "PATCH /applications/ours/envs/bulk"

    async def test_start_that_never_arrived_is_issued_again(self, coolify: ScriptedCoolify) -> None:
        coolify.respond("POST /applications/ours/start", httpx.Response(502, text=HTML))
        with pytest.raises(BackendUnavailable):
            await self.start(coolify)
        assert self.starts(coolify) == 1, "not in the same call"
        coolify.respond("POST /applications/ours/start", {"message": "x", "deployment_uuid": "d1"})
        assert await self.start(coolify) == "d1"
        assert self.starts(coolify) == 2

    async def test_old_deployment_does_not_belong_to_the_start(
        self, coolify: ScriptedCoolify
    ) -> None:
        self.has_deployments(coolify, d0="finished")
        assert await self.start(coolify) == "d1"

    async def test_phantom_uuid_is_not_a_deployment(self, coolify: ScriptedCoolify) -> None:
        coolify.respond("GET /deployments/d1", {"message": "Deployment not found."}, 404)
        with pytest.raises(BudgetExhausted) as caught:
            await self.start(coolify)
        assert 15 <= caught.value.retry_after_s <= 60
        coolify.respond("POST /applications/ours/start", {"message": "x", "deployment_uuid": "d2"})
        coolify.respond("GET /deployments/d2", {"deployment_uuid": "d2", "status": "queued"})
        assert await self.start(coolify) == "d2"

    async def test_deployment_is_found_when_response_has_no_uuid(
        self, coolify: ScriptedCoolify
    ) -> None:
        def respond(request: httpx.Request) -> httpx.Response:
            self.has_deployments(coolify, d2="queued", d0="finished")
            return httpx.Response(200, json={"message": "Deployment already queued."})

        self.has_deployments(coolify, d0="finished")
        coolify.respond("POST /applications/ours/start", respond)
        assert await self.start(coolify) == "d2"

    async def test_start_without_uuid_and_deployment_is_unavailable(
        self, coolify: ScriptedCoolify
    ) -> None:
        coolify.respond("POST /applications/ours/start", {"message": "Deployment already queued."})
        self.has_deployments(coolify, d0="finished")
        with pytest.raises(BackendUnavailable, match="already queued"):
            await self.start(coolify)

    async def test_stop_during_start_cancels_the_deployment(self, coolify: ScriptedCoolify) -> None:
        def respond(request: httpx.Request) -> httpx.Response:
            coolify.variables["BOTPOOL_STOPPED_THROUGH"] = "12"
            self.has_deployments(coolify, d1="queued")
            return httpx.Response(200, json={"message": "x", "deployment_uuid": "d1"})

        coolify.respond("POST /applications/ours/start", respond)
        self.cancels(coolify, 200)
        with pytest.raises(StartSuperseded):
            await self.start(coolify)
        assert coolify.calls()[-3:] == [
            "POST /deployments/d1/cancel",
            "GET /deployments/applications/ours",
            "POST /applications/ours/stop",
        ]

    async def test_start_is_superseded_while_another_deployment_is_open(
        self, coolify: ScriptedCoolify
    ) -> None:
        self.has_deployments(coolify, d0="in_progress")
        with pytest.raises(StartSuperseded):
            await self.start(coolify)
        assert not self.starts(coolify)

    async def test_start_is_superseded_while_earlier_assignment_runs(
        self, coolify: ScriptedCoolify
    ) -> None:
        await self.start(coolify, 11)
        coolify.requests.clear()
        self.has_deployments(coolify, d1="finished")
        coolify.respond("GET /applications/ours", APPLICATION | {"status": "running:unknown"})
        with pytest.raises(StartSuperseded):
            await self.start(coolify)
        coolify.respond("GET /applications/ours", APPLICATION | {"server_status": False})
        with pytest.raises(BackendUnavailable):
            await self.start(coolify)
        assert not self.starts(coolify)

    async def test_half_written_environment_is_not_started(self, coolify: ScriptedCoolify) -> None:
        def half(request: httpx.Request) -> httpx.Response:
            (item, *_) = json.loads(request.content)["data"]
            coolify.variables[item["key"]] = item["value"]
            return httpx.Response(201, json=[item])

        coolify.respond("PATCH /applications/ours/envs/bulk", half)
        with pytest.raises(BackendUnavailable, match="not written"):
            await self.start(coolify)
        assert not self.starts(coolify)

    async def test_token_that_cannot_read_values_is_refused(self, coolify: ScriptedCoolify) -> None:
        coolify.respond("PATCH /applications/ours/envs/bulk", [{"key": "BOTPOOL_ASSIGNMENT"}], 201)
        with pytest.raises(BackendRefused, match="read:sensitive") as caught:
            await self.start(coolify)
        assert caught.value.setting == "backends.coolify.token"
        assert not self.starts(coolify)
        assert not (await coolify.backend.check(timeout_s=2)).ok

    @pytest.mark.parametrize("status", [200, 400, 404, 500])
    async def test_stop_cancels_first_for_any_cancel_response(
        self, coolify: ScriptedCoolify, status: int
    ) -> None:
        self.has_deployments(coolify, d1="in_progress", d0="finished")
        self.cancels(coolify, status)
        await coolify.backend.stop(OURS, AssignmentId(12), timeout_s=2)
        assert coolify.variables["BOTPOOL_STOPPED_THROUGH"] == "12"
        assert coolify.calls()[-5:] == [
            "PATCH /applications/ours/envs/bulk",
            "GET /deployments/applications/ours",
            "POST /deployments/d1/cancel",
            "GET /deployments/applications/ours",
            "POST /applications/ours/stop",
        ]
        assert coolify.requests[-1].url.params["docker_cleanup"] == "false"

    async def test_stop_waits_for_the_end_of_open_deployment(
        self, coolify: ScriptedCoolify
    ) -> None:
        self.has_deployments(coolify, d1="in_progress")
        coolify.respond("POST /deployments/d1/cancel", {"message": "x"})
        with pytest.raises(StillRunning):
            await coolify.backend.stop(OURS, AssignmentId(12), timeout_s=2)
        assert "POST /applications/ours/stop" not in coolify.calls()
