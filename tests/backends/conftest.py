from collections.abc import AsyncIterator
from pathlib import Path

import pytest

for _module in ("conformance", "late_calls", "harness"):
    pytest.register_assert_rewrite(f"tests.backends.{_module}")

from tests.backends.docker_harness import DockerHarness  # noqa: E402 - after the registration
from tests.backends.process_harness import ProcessHarness  # noqa: E402 - after the registration
from tests.support.dockerd import Dockerd  # noqa: E402 - after the registration


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
