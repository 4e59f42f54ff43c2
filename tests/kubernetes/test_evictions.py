"""Kubernetes itself ends Pods of bots: evictions, with and without a disruption budget, preemption.

A bot that is not in its call is retried under its id, without an attempt; one in its call fails.
The budget keeps evictions from bots that join their call or are in it.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.kubernetes.stepped_installation import POOL, SteppedInstallation
from tests.support.kubernetes import ApiError, Cluster
from tests.support.kubernetes.pods import create_pod, import_program_image, phase
from tests.support.replicas import bot_request

IN_CALL = "botpool.dev/in-call"
ONE_ATTEMPT = Policy(deploy_attempts=1)
"""A fault of the infrastructure is no attempt: these bots are retried all the same."""


def pod_of(installation: SteppedInstallation) -> str:
    ((name, _, _),) = installation.pods()
    return name


def evict(installation: SteppedInstallation, name: str) -> None:
    harness = installation.harness
    path = f"/api/v1/namespaces/{harness.namespace}/pods/{name}/eviction"
    harness.cluster.kubectl.request("POST", path, {"metadata": {"name": name}})


def protect_calls(installation: SteppedInstallation) -> None:
    """Create the disruption budget of the chart."""
    harness = installation.harness
    ours = {"botpool.dev/installation": harness.installation(), IN_CALL: "true"}
    harness.cluster.kubectl.request(
        "POST",
        f"/apis/policy/v1/namespaces/{harness.namespace}/poddisruptionbudgets",
        {
            "metadata": {"name": "in-call"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": ours}},
        },
    )


async def join(installation: SteppedInstallation, replica: Replica, bot: BotId) -> None:
    """Report as the agent that the bot is in its call."""
    assignment = AssignmentId(installation.stage.slot_of(bot)["assignment_id"])
    await replica.agents.report(assignment, bot, BotStatus.IN_CALL, None)


async def wait_without_steps(condition: Callable[[], bool]) -> None:
    """Wait while no replica takes a step or observes."""
    give_up_at = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < give_up_at
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("joins", [False, True])
async def test_evicted_bot_before_its_call_is_retried_under_its_id(
    installation: SteppedInstallation, joins: bool
) -> None:
    """The budget does not hold up the drain of a Pod whose agent has not called yet."""
    stage = installation.stage
    replica = await installation.add_replica(policy=ONE_ATTEMPT)
    if joins:
        bot = await installation.run_bot(replica)
    else:
        protect_calls(installation)
        bot = (await replica.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
        while await stage.step(replica):
            pass
        await wait_without_steps(lambda: [each[2] for each in installation.pods()] == ["Running"])
        assert stage.statuses(bot) == ["DEPLOYING"]
    first = pod_of(installation)
    evict(installation, first)
    await installation.until(
        lambda: (
            stage.statuses(bot) == ["JOINING_CALL"]
            and first not in [name for name, *_ in installation.pods()]
        )
    )
    runs = stage.rows("SELECT infrastructure_fault FROM assignments ORDER BY id")
    assert [run["infrastructure_fault"] for run in runs] == [True, False]


def require_protection(installation: SteppedInstallation, name: str) -> None:
    with pytest.raises(ApiError) as refused:
        evict(installation, name)
    assert refused.value.status == 429


async def test_eviction_spares_a_bot_in_its_call_while_the_budget_exists(
    installation: SteppedInstallation,
) -> None:
    stage = installation.stage
    replica = await installation.add_replica()
    protect_calls(installation)
    bot = await installation.run_bot(replica)
    name, harness = pod_of(installation), installation.harness

    def is_marked() -> bool:
        pod = harness.cluster.pod(harness.namespace, name)
        assert pod is not None
        return IN_CALL in pod["metadata"]["labels"]

    # The transition to JOINING_CALL protects the Pod: no observation is needed.
    await wait_without_steps(is_marked)
    require_protection(installation, name)
    await join(installation, replica, bot)
    await installation.advance()
    require_protection(installation, name)
    assert stage.statuses(bot) == ["IN_CALL"]

    path = f"/apis/policy/v1/namespaces/{harness.namespace}/poddisruptionbudgets/in-call"
    harness.cluster.kubectl.request("DELETE", path)
    evict(installation, name)
    await installation.until(lambda: stage.statuses(bot) == ["FAILED"])
    ended = stage.bot(bot)
    assert ended["failure_code"] == "container_exited"
    assert "evicted, for example by a drain of its node" in ended["failure_reason"]
    await installation.until(lambda: not installation.pods())


async def test_protection_ends_with_the_call(installation: SteppedInstallation) -> None:
    replica = await installation.add_replica()
    bot = await installation.run_bot(replica)
    name, harness = pod_of(installation), installation.harness

    def is_marked() -> bool:
        pod = harness.cluster.pod(harness.namespace, name)
        assert pod is not None
        return IN_CALL in pod["metadata"]["labels"]

    await wait_without_steps(is_marked)
    await join(installation, replica, bot)
    assignment = AssignmentId(installation.stage.slot_of(bot)["assignment_id"])
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    await installation.until(lambda: not is_marked())


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_preempted_bot_waits_for_room_and_is_retried(
    kubernetes: Cluster, installation: SteppedInstallation
) -> None:
    import_program_image(kubernetes)
    stage, namespace = installation.stage, installation.harness.namespace
    name = f"urgent-{secrets.token_hex(4)}"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kubernetes.kubectl.request("POST", classes, {"metadata": {"name": name}, "value": 1000})
    try:
        with kubernetes.node() as node:
            status = kubernetes.kubectl.request("GET", f"/api/v1/nodes/{node.name}")["status"]
            most = float(status["allocatable"]["cpu"]) * 0.7
            replica = await installation.add_replica(
                replace(POOL, cpus=most),
                ONE_ATTEMPT,
                node_selector=node.selector,
                tolerations=node.tolerations,
            )
            bot = await installation.run_bot(replica)
            create_pod(
                kubernetes,
                namespace,
                "urgent",
                "import signal; signal.pause()",
                priorityClassName=name,
                nodeSelector=node.selector,
                tolerations=node.tolerations,
                terminationGracePeriodSeconds=1,
                cpu=f"{int(most * 1000)}m",
            )
            await installation.until(lambda: phase(kubernetes, namespace, "urgent") == "Running")
            await installation.until(lambda: len(stage.rows("SELECT id FROM assignments")) == 2)
            assert stage.statuses(bot) == ["DEPLOYING"], "there is no room"
            faults = stage.rows("SELECT infrastructure_fault FROM assignments ORDER BY id")
            assert [each["infrastructure_fault"] for each in faults] == [True, False]
            kubernetes.kubectl.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/urgent")
            await installation.until(lambda: stage.statuses(bot) == ["JOINING_CALL"])
    finally:
        kubernetes.kubectl.request("DELETE", f"{classes}/{name}")
