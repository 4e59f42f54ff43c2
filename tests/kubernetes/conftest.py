"""Fixtures of the tests on a real Kubernetes."""

from collections.abc import AsyncIterator

import pytest

from tests.backends.kubernetes_harness import KubernetesHarness
from tests.kubernetes.stepped_installation import SteppedInstallation, import_waiting_program
from tests.support.kubernetes import Cluster
from tests.support.replicas import Stage


@pytest.fixture
async def installation(kubernetes: Cluster, stage: Stage) -> AsyncIterator[SteppedInstallation]:
    import_waiting_program(kubernetes)
    with kubernetes.namespace() as namespace:
        harness = KubernetesHarness(kubernetes, namespace)
        try:
            yield SteppedInstallation(stage, harness, [])
        finally:
            await harness.clear()
