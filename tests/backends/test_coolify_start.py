"""Starts and stops, request by request, against a Coolify that answers what a test says."""

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
from tests.backends.coolify_script import APPLICATION, HTML, OURS, Script, list_owned, start_order


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
        assert script.budget.taken == [(RequestPurpose.START, 6)]

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
            time.sleep(1.2)
            return script.write_variables(request)

        await list_owned(script)
        script.says("PATCH /applications/ours/envs/bulk", freeze)
        with pytest.raises(BackendUnavailable, match="did not end within"):
            await script.backend.start(start_order(), timeout_s=1.0)
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
        with pytest.raises(BudgetExhausted) as caught:
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
