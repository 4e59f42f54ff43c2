from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("conformance", "harness")

from process_harness import ProcessHarness  # noqa: E402 - after the registration


@pytest.fixture
async def process_harness(tmp_path: Path) -> AsyncIterator[ProcessHarness]:
    harness = ProcessHarness(tmp_path)
    yield harness
    await harness.clear()
