"""How the backend treats the recorded answers of the API server."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from botpool.backends.kubernetes import KubernetesBackend, names, watch
from botpool.backends.protocol import ContainerSpec, RequestPurpose, StartRequest, StopMode
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    CallSuperseded,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, ExpectedRun
from tests.backends.recorded_answers import all_answers, answer
from tests.backends.scripted_kubernetes import ScriptedKubernetes, recorded

SPEC = ContainerSpec(name="pool-teams-001", pool_name="teams", image="bot:1")
SLOT = names.container_id_of("one", SPEC.name)
RUN = AssignmentId(11)
NAME = names.pod_name("one", SPEC.name, RUN)
UID = DeploymentId("8e96a68f-c955-403e-9d8e-bf8e73592ffc")
TIMEOUT_S = 5.0
REQUEST = StartRequest(
    container_id=SLOT,
    assignment_id=RUN,
    correlation_id="c",
    environment={},
    deployment_id=UID,
)


def pod(recording: str = "running", *, run: int = RUN, ours: bool = True) -> dict[str, Any]:
    """Return a recorded Pod with the name and labels of a run."""
    found = answer(recording)
    found["metadata"]["name"] = names.pod_name("one", SPEC.name, AssignmentId(run))
    found["metadata"]["labels"] = dict(
        names.labels_of("one" if ours else "two", SPEC, AssignmentId(run))
    )
    found["metadata"]["finalizers"] = [names.STOP_FINALIZER]
    return found


def listing(*pods: dict[str, Any], token: str = "") -> httpx.Response:
    return httpx.Response(200, json={"items": list(pods), "metadata": {"continue": token}})


def found(found: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json=found)


@pytest.fixture
def server() -> ScriptedKubernetes:
    return ScriptedKubernetes()


async def prepare(backend: KubernetesBackend) -> DeploymentId:
    return await backend.prepare(SPEC, REQUEST, timeout_s=TIMEOUT_S)


async def observe(backend: KubernetesBackend, uid: DeploymentId | None = UID) -> ContainerState:
    expected = {SLOT: ExpectedRun(assignment_id=RUN, deployment_id=uid)}
    seen = await backend.observe([SLOT], expected=expected, timeout_s=TIMEOUT_S)
    return seen[SLOT].state


class TestStart:
    async def test_create_and_open_gate(self, server: ScriptedKubernetes) -> None:
        server.on("POST", "/pods", found(pod("gated")))
        server.on("PATCH", f"/pods/{NAME}", found(pod()))
        backend = server.backend()
        assert await prepare(backend) == pod("gated")["metadata"]["uid"]
        assert await backend.start(REQUEST, timeout_s=TIMEOUT_S) == UID
        (patch,) = server.sent("PATCH")
        assert patch.headers["Content-Type"] == "application/merge-patch+json"
        assert json.loads(patch.content) == {
            "metadata": {"uid": UID},
            "spec": {"schedulingGates": None},
        }

    async def test_409_of_our_own_pod_is_success(self, server: ScriptedKubernetes) -> None:
        server.on("POST", "/pods", recorded("create-409.status"))
        server.on("GET", f"/pods/{NAME}", found(pod("gated")))
        assert await prepare(server.backend()) == pod("gated")["metadata"]["uid"]

    async def test_pod_that_was_stopped_is_not_prepared_again(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("POST", "/pods", recorded("create-while-terminating.status"))
        server.on("GET", f"/pods/{NAME}", found(pod("node-lost-terminating")))
        with pytest.raises(StartSuperseded):
            await prepare(server.backend())

    async def test_foreign_pod_of_that_name_is_left_alone(self, server: ScriptedKubernetes) -> None:
        server.on("POST", "/pods", recorded("create-409.status"))
        server.on("GET", f"/pods/{NAME}", found(pod(ours=False)))
        with pytest.raises(BackendRefused, match="without Botpool's label"):
            await prepare(server.backend())

    @pytest.mark.parametrize("late", ["merge-patch-wrong-uid.status", "patch-after-delete.status"])
    async def test_late_start_is_superseded(self, server: ScriptedKubernetes, late: str) -> None:
        server.on("PATCH", f"/pods/{NAME}", recorded(late))
        with pytest.raises(StartSuperseded):
            await server.backend().start(REQUEST, timeout_s=TIMEOUT_S)

    async def test_start_of_a_pod_in_deletion_is_superseded(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("PATCH", f"/pods/{NAME}", found(pod("delete-gated.answer")))
        with pytest.raises(StartSuperseded):
            await server.backend().start(REQUEST, timeout_s=TIMEOUT_S)

    @pytest.mark.parametrize("odd", ["patch-wrong-uid.status", "patch-second-ungate.status"])
    async def test_422_without_a_cause_is_no_evidence(
        self, server: ScriptedKubernetes, odd: str
    ) -> None:
        server.on("PATCH", f"/pods/{NAME}", recorded(odd))
        with pytest.raises(BackendUnavailable):
            await server.backend().start(REQUEST, timeout_s=TIMEOUT_S)

    @pytest.mark.parametrize(
        ("refusal", "setting", "words"),
        [
            ("quota-missing-requests.status", "pools.teams", "must specify"),
            ("pod-security-refused.status", "backends.kubernetes.pod_template", "runAsNonRoot"),
            ("namespace-missing.status", "backends.kubernetes.namespace", "no namespace nope"),
            ("forbidden-namespace.status", "backends.kubernetes", "list pods in the namespace"),
        ],
    )
    async def test_wrong_setup_is_refused_and_named_by_the_check(
        self, server: ScriptedKubernetes, refusal: str, setting: str, words: str
    ) -> None:
        server.on("POST", "/pods", recorded(refusal))
        allow_all(server)
        backend = server.backend()
        with pytest.raises(BackendRefused, match=words) as caught:
            await prepare(backend)
        assert caught.value.setting == setting
        health = await backend.check(timeout_s=TIMEOUT_S)
        assert not health.ok
        assert words in health.detail

    async def test_exhausted_quota_is_no_refusal(self, server: ScriptedKubernetes) -> None:
        server.on("POST", "/pods", recorded("quota-exceeded.status"))
        with pytest.raises(BackendUnavailable, match="exceeded quota"):
            await prepare(server.backend())


def allow_all(server: ScriptedKubernetes, **denied: str) -> None:
    """Answer the check; `denied` maps a verb to the resource without permission."""

    def review(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)["spec"]["resourceAttributes"]
        is_denied = denied.get(asked["verb"]) == asked["resource"]
        name = "create-secrets" if is_denied else "create-pods"
        return httpx.Response(201, json=answer(f"selfsubjectaccessreview-{name}"))

    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    server.on("POST", path, review)
    server.on("GET", "/version", httpx.Response(200, json={"gitVersion": "v1.34.11"}))


class TestCheck:
    async def test_missing_verbs_are_named(self, server: ScriptedKubernetes) -> None:
        allow_all(server, patch="pods", watch="pods")
        health = await server.backend().check(timeout_s=TIMEOUT_S)
        assert not health.ok
        assert "missing in the namespace bots: watch pods, patch pods" in health.detail

    async def test_nodes_are_optional(self, server: ScriptedKubernetes) -> None:
        allow_all(server, get="nodes")
        health = await server.backend().check(timeout_s=TIMEOUT_S)
        assert health.ok
        assert "get nodes" in health.weakness
        assert "list nodes" not in health.weakness
        allow_all(server, list="nodes")
        health = await server.backend().check(timeout_s=TIMEOUT_S)
        assert health.ok
        assert "limit how many new nodes pull an image" in health.weakness

    async def test_permissions_are_not_asked_for_again_at_once(
        self, server: ScriptedKubernetes
    ) -> None:
        allow_all(server)
        backend = server.backend()
        for _ in range(3):
            assert (await backend.check(timeout_s=TIMEOUT_S)).ok
        assert len(server.sent("POST")) == 9

    async def test_recorded_reviews(self) -> None:
        for name, allowed in (
            ("create-pods", True),
            ("get-pods", True),
            ("create-secrets", False),
            ("list-nodes", False),
        ):
            review = answer(f"selfsubjectaccessreview-{name}")
            assert review["status"]["allowed"] is allowed
        rules = answer("selfsubjectrulesreview")["status"]["resourceRules"]
        assert any("pods" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)


class TestStop:
    async def test_stop_reads_and_deletes_with_the_uid(self, server: ScriptedKubernetes) -> None:
        server.on("GET", f"/pods/{NAME}", found(pod()))
        server.on("DELETE", f"/pods/{NAME}", found(pod("delete-graceful.answer")))
        await server.backend().stop(SLOT, RUN, mode=StopMode.ASK, timeout_s=TIMEOUT_S)
        (options,) = server.bodies("DELETE")
        assert options == {"preconditions": {"uid": UID}, "gracePeriodSeconds": 5}

    @pytest.mark.parametrize("late", ["delete-wrong-uid.status", "patch-after-delete.status"])
    async def test_late_stop_changes_nothing(self, server: ScriptedKubernetes, late: str) -> None:
        server.on("GET", f"/pods/{NAME}", found(pod()))
        server.on("DELETE", f"/pods/{NAME}", recorded(late))
        await server.backend().stop(SLOT, RUN, timeout_s=TIMEOUT_S)

    async def test_kill_is_never_a_force_delete(self, server: ScriptedKubernetes) -> None:
        server.on("GET", f"/pods/{NAME}", found(pod()))
        server.on("DELETE", f"/pods/{NAME}", found(pod("delete-graceful.answer")))
        await server.backend().stop(SLOT, RUN, mode=StopMode.KILL, timeout_s=TIMEOUT_S)
        assert server.bodies("DELETE")[0]["gracePeriodSeconds"] == 1

    async def test_ended_pod_is_not_deleted_before_its_end_is_recorded(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("GET", f"/pods/{NAME}", found(pod("exited-0")))
        await server.backend().stop(SLOT, RUN, timeout_s=TIMEOUT_S)
        assert not server.sent("DELETE")

    async def test_discard_removes_only_our_finalizer(self, server: ScriptedKubernetes) -> None:
        ended = pod("exited-0")
        uid = DeploymentId(ended["metadata"]["uid"])
        ended["metadata"]["finalizers"].append("acme.org/other")
        deleted = {**ended, "metadata": {**ended["metadata"], "deletionTimestamp": "2026-11-17"}}
        server.on("GET", f"/pods/{NAME}", found(ended))
        server.on("DELETE", f"/pods/{NAME}", found(deleted))
        server.on("PATCH", f"/pods/{NAME}", found(deleted))
        backend = server.backend()
        backend.discard(SLOT, RUN, uid)
        await until(lambda: server.sent("PATCH"))
        await backend.close()
        assert server.bodies("PATCH") == [
            {"metadata": {"finalizers": ["acme.org/other"], "uid": uid}}
        ]

    async def test_discard_keeps_the_finalizer_of_a_pod_that_may_run(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("GET", "/pods", listing(pod("node-lost-terminating")))
        server.on("GET", "/api/v1/nodes/node2", recorded("node-unreachable"))
        with pytest.raises(StillRunning):
            await server.backend().delete(SLOT, stop_through=RUN, timeout_s=TIMEOUT_S)
        assert not server.sent("PATCH")

    async def test_late_ensure_leaves_a_later_run_alone(self, server: ScriptedKubernetes) -> None:
        server.on("GET", "/pods", listing(pod(run=12)))
        with pytest.raises(CallSuperseded):
            await server.backend().ensure(SPEC, stop_through=RUN, timeout_s=TIMEOUT_S)

    async def test_cleanup_removes_what_no_slot_knows(self, server: ScriptedKubernetes) -> None:
        known, unknown, orphan = pod("exited-0", run=1), pod("exited-3", run=2), pod("gated", run=3)
        server.on("GET", "/pods", listing(known, unknown, orphan, pod(run=4)))
        server.on("DELETE", "*", found(pod("delete-gated.answer")))
        server.on("PATCH", "*", found(pod("delete-gated.answer")))
        backend = server.backend()

        async def uids() -> set[DeploymentId]:
            # A run that was recorded and ended before the list is known by now.
            assert server.sent("GET")
            return {DeploymentId(known["metadata"]["uid"])}

        assert await backend.discard_unknown(uids, min_age_s=1e9, timeout_s=TIMEOUT_S) == 1
        assert await backend.discard_unknown(uids, min_age_s=0, timeout_s=TIMEOUT_S) == 2
        deleted = {request.url.path.rpartition("/")[2] for request in server.sent("DELETE")}
        assert deleted == {unknown["metadata"]["name"], orphan["metadata"]["name"]}


async def until(condition: Any) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.005)


class TestObserve:
    async def test_one_list_whatever_the_size(self, server: ScriptedKubernetes) -> None:
        server.on("GET", "/pods", listing(*(pod(run=run) for run in range(1, 400))))
        slots = [ContainerId(f"one.pool-teams-{number:03}") for number in range(1, 200)]
        seen = await server.backend().observe(slots, timeout_s=TIMEOUT_S)
        assert len(seen) == 199
        (request,) = server.requests
        assert "resourceVersion" not in request.url.params
        assert request.url.params["labelSelector"] == "botpool.dev/installation=one"

    async def test_pages_are_joined_and_an_expired_page_restarts_the_list(
        self, server: ScriptedKubernetes
    ) -> None:
        first, second = pod(run=RUN), pod("exited-0", run=10)
        server.on(
            "GET",
            "/pods",
            listing(second, token="a"),
            recorded("continue-expired.status"),
            listing(second, token="b"),
            listing(first),
        )
        slots = [SLOT, ContainerId("one.pool-teams-002")]
        seen = await server.backend().observe(slots, timeout_s=TIMEOUT_S)
        assert seen[SLOT].state is ContainerState.RUNNING
        tokens = [request.url.params.get("continue", "") for request in server.requests]
        assert tokens == ["", "a", "", "b"]

    async def test_404_of_a_recorded_pod_is_unknown(self, server: ScriptedKubernetes) -> None:
        server.on("GET", f"/pods/{NAME}", recorded("log-after-deletion.status"))
        assert await observe(server.backend()) is ContainerState.UNKNOWN

    async def test_without_permission_for_nodes_the_state_stays_unconfirmed(
        self, server: ScriptedKubernetes
    ) -> None:
        lost = pod("node-object-deleted-pod-gc")
        server.on("GET", f"/pods/{NAME}", found(lost))
        server.on("GET", "/api/v1/nodes/node2", recorded("forbidden-nodes.status"))
        allow_all(server)
        backend = server.backend()
        uid = DeploymentId(lost["metadata"]["uid"])
        assert await observe(backend, uid) is ContainerState.UNKNOWN
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok

    async def test_wrong_setup_of_a_pod_is_named_by_the_check_until_one_runs(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("GET", f"/pods/{NAME}", found(pod("createcontainerconfigerror")), found(pod()))
        allow_all(server)
        backend = server.backend()
        assert await observe(backend, None) is ContainerState.ERROR
        health = await backend.check(timeout_s=TIMEOUT_S)
        assert "pools.teams: the container is configured wrongly" in health.detail
        assert await observe(backend, None) is ContainerState.RUNNING
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok

    @pytest.mark.parametrize("in_call", [True, False])
    async def test_pod_with_a_bot_in_a_call_is_protected(
        self, server: ScriptedKubernetes, in_call: bool
    ) -> None:
        marked = pod()
        if not in_call:
            marked["metadata"]["labels"][names.IN_CALL_LABEL] = "true"
        server.on("GET", f"/pods/{NAME}", found(marked))
        server.on("PATCH", f"/pods/{NAME}", found(marked))
        backend = server.backend()
        expected = {SLOT: ExpectedRun(assignment_id=RUN, deployment_id=UID, is_protected=in_call)}
        await backend.observe([SLOT], expected=expected, timeout_s=TIMEOUT_S)
        await until(lambda: server.sent("PATCH"))
        await backend.close()
        (patch,) = server.bodies("PATCH")
        assert patch["metadata"]["labels"] == {"botpool.dev/in-call": "true" if in_call else None}
        assert set(patch["metadata"]["annotations"].values()) == (
            {"false", "true"} if in_call else {None}
        )

    async def test_protection_stays_while_a_slot_is_read_before_its_bot_joins(
        self, server: ScriptedKubernetes
    ) -> None:
        marked = pod()
        marked["metadata"]["labels"][names.IN_CALL_LABEL] = "true"
        server.on("GET", f"/pods/{NAME}", found(marked))
        backend = server.backend()
        expected = {SLOT: ExpectedRun(assignment_id=RUN, deployment_id=UID)}
        await backend.observe([SLOT], expected=expected, timeout_s=TIMEOUT_S)
        await asyncio.sleep(0.05)
        assert not server.sent("PATCH")
        await backend.close()

    async def test_bot_that_joins_protects_its_pod_at_once(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("PATCH", f"/pods/{NAME}", found(pod()))
        backend = server.backend()
        backend.protect(SLOT, RUN, UID)
        await until(lambda: server.sent("PATCH"))
        await backend.close()
        (patch,) = server.bodies("PATCH")
        assert patch["metadata"]["labels"] == {"botpool.dev/in-call": "true"}
        assert patch["metadata"]["uid"] == UID


class TestFailures:
    async def test_429_pauses_for_the_time_that_the_server_names(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("GET", "*", recorded("evict-refused-by-pdb.status", **{"Retry-After": "7"}))
        with pytest.raises(BudgetExhausted) as caught:
            await observe(server.backend())
        assert caught.value.retry_after_s == 7
        assert server.budget.pauses == [7]

    async def test_refused_token_is_read_again_and_used(self, server: ScriptedKubernetes) -> None:
        server.tokens = ["expired", "rotated"]
        server.on("GET", "*", recorded("unauthorized.status"), found(pod()))
        assert await observe(server.backend()) is ContainerState.RUNNING
        used = [request.headers["Authorization"] for request in server.requests]
        assert used == ["Bearer expired", "Bearer rotated"]

    async def test_token_that_stays_refused_is_named(self, server: ScriptedKubernetes) -> None:
        server.on("GET", "*", recorded("unauthorized.status"))
        with pytest.raises(BackendRefused, match="does not accept Botpool's credentials"):
            await observe(server.backend())
        assert len(server.requests) == 2

    @pytest.mark.parametrize(
        "odd",
        [
            httpx.Response(502, text="<html>bad gateway</html>"),
            httpx.Response(404, text="<html>not found</html>"),
            httpx.Response(404, json={"error": "no such route"}),
            httpx.Response(500, json={"kind": "Status", "message": "etcdserver: timed out"}),
            httpx.Response(200, text='{"items": ['),
        ],
    )
    async def test_answer_of_something_else_is_no_evidence(
        self, server: ScriptedKubernetes, odd: httpx.Response
    ) -> None:
        server.on("GET", "*", odd)
        with pytest.raises(BackendUnavailable):
            await observe(server.backend())

    async def test_broken_connection_is_used_again_once(self, server: ScriptedKubernetes) -> None:
        def broken(request: httpx.Request) -> httpx.Response:
            raise httpx.RemoteProtocolError("Server disconnected", request=request)

        server.on("GET", "*", broken, found(pod()))
        assert await observe(server.backend()) is ContainerState.RUNNING
        server.on("GET", "*", broken)
        with pytest.raises(BackendUnavailable):
            await observe(server.backend())

    async def test_requests_are_taken_from_the_budget_in_portions(
        self, server: ScriptedKubernetes
    ) -> None:
        server.on("GET", "*", found(pod()))
        backend = server.backend()
        for _ in range(11):
            await observe(backend)
        assert server.budget.taken == [(RequestPurpose.OBSERVE, 10)] * 2

    def test_refused_bindings_are_conflicts(self) -> None:
        """The API server refuses what would run a gated or deleted Pod; Botpool relies on it."""
        for name in ("binding-gated.status", "binding-deleted.status"):
            assert answer(name)["code"] == 409


async def read(backend: KubernetesBackend, *, follow: bool = False) -> bytes:
    stream = backend.logs(SLOT, RUN, tail=None, follow=follow)
    return b"".join([chunk async for chunk in stream])


class TestLogs:
    @pytest.mark.parametrize(
        "nothing",
        [
            recorded("log-after-deletion.status"),
            recorded("log-of-creating.status"),
            httpx.Response(204),
            httpx.Response(200, text="unable to retrieve container logs for containerd://15"),
        ],
    )
    async def test_missing_output_is_empty(
        self, server: ScriptedKubernetes, nothing: httpx.Response
    ) -> None:
        server.on("GET", f"/pods/{NAME}/log", nothing)
        assert await read(server.backend()) == b""

    async def test_output_is_returned(self, server: ScriptedKubernetes) -> None:
        server.on("GET", f"/pods/{NAME}/log", httpx.Response(200, text="tick\ntick\n"))
        assert await read(server.backend()) == b"tick\ntick\n"


def events(*lines: tuple[str, dict[str, Any]]) -> httpx.Response:
    text = "".join(json.dumps({"type": kind, "object": thing}) + "\n" for kind, thing in lines)
    return httpx.Response(200, text=text)


EXPIRED = {"kind": "Status", "code": 410, "message": "too old resource version: 1 (1995)"}


class TestWatch:
    @pytest.fixture(autouse=True)
    def no_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watch, "_FIRST_WAIT_S", 0.0)

    async def first(self, server: ScriptedKubernetes, count: int) -> list[ContainerId]:
        backend = server.backend()
        found: list[ContainerId] = []
        async with asyncio.timeout(TIMEOUT_S):
            async for container_id in backend.changes():
                found.append(container_id)
                if len(found) == count:
                    break
        return found

    def script(self, server: ScriptedKubernetes, *watches: httpx.Response) -> None:
        waiting = list(watches)

        def answer_get(request: httpx.Request) -> httpx.Response:
            if "watch" in request.url.params:
                return waiting.pop(0) if len(waiting) > 1 else waiting[0]
            listed = {"items": [pod("exited-0")], "metadata": {"resourceVersion": "5"}}
            return httpx.Response(200, json=listed)

        server.on("GET", "/pods", answer_get)

    async def test_each_end_is_announced_once(self, server: ScriptedKubernetes) -> None:
        running, ended, other = pod(), pod("exited-0"), pod("exited-3", run=12)
        ended["metadata"]["uid"] = running["metadata"]["uid"]
        self.script(
            server,
            events(
                ("ADDED", running),
                ("MODIFIED", running),
                ("MODIFIED", ended),
                ("MODIFIED", ended),
                ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}),
                ("MODIFIED", other),
                ("DELETED", other),
            ),
        )
        assert await self.first(server, 3) == [SLOT] * 3

    async def test_410_in_the_stream_starts_again_and_announces_all(
        self, server: ScriptedKubernetes
    ) -> None:
        self.script(server, events(("ERROR", EXPIRED)), events())
        assert await self.first(server, 1) == [SLOT]
        lists = [r for r in server.requests if "watch" not in r.url.params]
        assert len(lists) == 2

    async def test_410_as_a_status_starts_again_and_announces_all(
        self, server: ScriptedKubernetes
    ) -> None:
        self.script(server, recorded("continue-expired.status"), events())
        assert await self.first(server, 1) == [SLOT]

    async def test_end_of_a_watch_continues_at_the_last_version(
        self, server: ScriptedKubernetes
    ) -> None:
        bookmark = {"metadata": {"resourceVersion": "77"}}
        self.script(
            server, events(("BOOKMARK", bookmark)), events(("MODIFIED", pod("exited-3", run=12)))
        )
        assert await self.first(server, 1) == [SLOT]
        versions = [
            r.url.params["resourceVersion"] for r in server.requests if "watch" in r.url.params
        ]
        assert versions[:2] == ["5", "77"]


def test_every_recorded_status_is_used() -> None:
    source = __file__
    with open(source) as file:  # noqa: PTH123
        text = file.read()
    statuses = [name for name in all_answers() if name.endswith(".status")]
    assert [name for name in statuses if f'"{name}"' not in text] == []
