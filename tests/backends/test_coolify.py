"""The Coolify backend passes the conformance suite, against the emulator."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends.conformance import BackendConformance
from tests.backends.coolify_harness import CoolifyHarness


class TestCoolifyBackend(BackendConformance):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[CoolifyHarness]:
        harness = CoolifyHarness(tmp_path)
        yield harness
        await harness.clear()
