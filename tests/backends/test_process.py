"""The process backend passes the conformance suite."""

import pytest
from conformance import BackendConformance
from process_harness import ProcessHarness


class TestProcessBackend(BackendConformance):
    @pytest.fixture
    def harness(self, process_harness: ProcessHarness) -> ProcessHarness:
        return process_harness
