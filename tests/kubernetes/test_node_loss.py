"""A lost node, on a real Kubernetes: bots run on, and no slot is handed over before its proof."""

import contextlib

import pytest

from botpool.domain.ids import AssignmentId
from botpool.domain.states import BotStatus
from tests.kubernetes.stepped_installation import SteppedInstallation
from tests.support.kubernetes import ApiError, Cluster, TestNode
from tests.support.replicas import bot_request

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


async def test_lost_node_keeps_its_slot_until_it_returns(
    kubernetes: Cluster, installation: SteppedInstallation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        await here.agents.heartbeat(assignment, bot)
        await here.agents.report(assignment, bot, BotStatus.IN_CALL, None)
        await installation.advance()
        await here.recovery.recover()
        assert stage.statuses(bot) == ["IN_CALL"], "a bot on a lost node runs on"

        await installation.end_on_lost_node(node, bot)
        installation.replicas.clear()
        elsewhere = await installation.add_replica()
        second = await installation.run_bot(elsewhere)
        waiting = (await elsewhere.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
        assert {host for _, host, _ in installation.pods()} == {node.name, "node-1"}

        await force_delete(kubernetes, installation, node)
        for _ in range(5):
            await installation.advance()
        assert stage.statuses(bot, second, waiting) == ["DONE", "JOINING_CALL", "QUEUED"]
        assert stage.slots()[0]["status"] == "releasing"
        assert node.running_containers(installation.harness.namespace), "the container runs"

        node.resume_kubelet()
        await installation.until(lambda: stage.statuses(waiting) == ["JOINING_CALL"])
        assert stage.slots()[0]["assigned_bot_id"] == waiting


async def test_node_that_is_declared_dead_hands_its_slots_over(
    kubernetes: Cluster, installation: SteppedInstallation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        await installation.end_on_lost_node(node, bot)
        installation.replicas.clear()
        elsewhere = await installation.add_replica()
        await installation.run_bot(elsewhere)
        waiting = (await elsewhere.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
        own = kubernetes.kubectl.request("GET", f"/api/v1/nodes/{node.name}")["spec"]["taints"]
        kubernetes.kubectl.request(
            "PATCH",
            f"/api/v1/nodes/{node.name}",
            {"spec": {"taints": [*own, taint]}},
            "application/merge-patch+json",
        )
        await installation.until(lambda: stage.statuses(waiting) == ["JOINING_CALL"])
        assert stage.slots()[0]["assigned_bot_id"] == waiting
        node.resume_kubelet()


async def test_forced_release_starts_the_next_bot_beside_the_lost_container(
    kubernetes: Cluster, installation: SteppedInstallation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        old = AssignmentId(stage.slot_of(bot)["assignment_id"])
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        await installation.end_on_lost_node(node, bot)
        installation.replicas.clear()
        elsewhere = await installation.add_replica()
        slot_id = stage.slots()[0]["id"]
        await elsewhere.forced_release.release(slot_id, key_name="ops", bot_id=bot)
        following = await installation.run_bot(elsewhere)
        assert stage.slot_of(following)["id"] == slot_id
        assert node.running_containers(installation.harness.namespace), "the operator was wrong"
        assert (await elsewhere.agents.heartbeat(old, bot)).should_exit
        node.resume_kubelet()
        namespace = installation.harness.namespace
        await installation.until(lambda: not node.running_containers(namespace))
        assert stage.statuses(following) == ["JOINING_CALL"], "the next bot runs on"


async def test_deleted_node_object_hands_no_slot_over_until_its_kubelet_is_back(
    kubernetes: Cluster, installation: SteppedInstallation
) -> None:
    stage = installation.stage
    with kubernetes.node() as node:
        here = await installation.add_replica(
            node_selector=node.selector, tolerations=node.tolerations
        )
        bot = await installation.run_bot(here)
        node.pause_kubelet()
        node.wait_for_status("Unknown")
        kubernetes.kubectl.request("DELETE", f"/api/v1/nodes/{node.name}")
        await installation.until(lambda: "Failed" in [phase for *_, phase in installation.pods()])
        assert stage.statuses(bot) == ["JOINING_CALL"], "the phase proves nothing"
        assert await stage.end(here, bot)
        await installation.until(lambda: stage.slots()[0]["unconfirmed_node"] == node.name)
        assert node.running_containers(installation.harness.namespace), "the container runs"
        for _ in range(5):
            await installation.advance()
        assert stage.slots()[0]["status"] == "releasing"
        node.resume_kubelet()
        node.restart_kubelet()
        await installation.until(lambda: stage.slots()[0]["status"] == "idle")
        assert not node.running_containers(installation.harness.namespace)


async def force_delete(cluster: Cluster, installation: SteppedInstallation, node: TestNode) -> None:
    """Do what any other client may do: delete the Pods of a node without their kubelet."""
    for name, host, _ in installation.pods():
        if host == node.name:
            path = f"/api/v1/namespaces/{installation.harness.namespace}/pods/{name}"
            with contextlib.suppress(ApiError):
                cluster.kubectl.request("DELETE", path, {"gracePeriodSeconds": 0})
