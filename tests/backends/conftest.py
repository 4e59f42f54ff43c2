from collections.abc import AsyncIterator
from pathlib import Path

import pytest

for _module in ("conformance", "late_calls", "harness"):
    pytest.register_assert_rewrite(f"tests.backends.{_module}")

from tests.backends.docker_harness import DockerHarness  # noqa: E402 - after the registration
from tests.backends.kubernetes_harness import (  # noqa: E402 - after the registration
    KubernetesHarness,
    import_program,
)
from tests.backends.process_harness import ProcessHarness  # noqa: E402 - after the registration
from tests.support.dockerd import Dockerd  # noqa: E402 - after the registration
from tests.support.kubernetes import Cluster  # noqa: E402 - after the registration


@pytest.fixture
async def process_harness(tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    harness = ProcessHarness(tmp_path)
    yield harness
    await harness.clear()


@pytest.fixture
async def docker_harness(dockerd: Dockerd, tmp_path: Path) -> AsyncIterator[DockerHarness]:
    harness = DockerHarness(dockerd, tmp_path)
    await harness.open()
    yield harness
    await harness.clear()


@pytest.fixture(scope="session")
def bot_cluster(kubernetes: Cluster) -> Cluster:
    """A cluster with the image of the conformance suite."""
    import_program(kubernetes)
    return kubernetes


@pytest.fixture
async def kubernetes_harness(bot_cluster: Cluster) -> AsyncIterator[KubernetesHarness]:
    with bot_cluster.namespace() as namespace:
        harness = KubernetesHarness(bot_cluster, namespace)
        yield harness
        await harness.clear()
