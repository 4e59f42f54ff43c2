"""The process backend passes the conformance suite."""

import pytest

from tests.backends.conformance import BackendConformance
from tests.backends.process_harness import ProcessHarness


class TestProcessBackend(BackendConformance):
    @pytest.fixture
    def harness(self, process_harness: ProcessHarness) -> ProcessHarness:
        return process_harness
