"""The Docker backend passes the conformance suite, against a real daemon."""

import pytest

from tests.backends.conformance import BackendConformance
from tests.backends.docker_harness import DockerHarness


class TestDockerBackend(BackendConformance):
    @pytest.fixture
    def harness(self, docker_harness: DockerHarness) -> DockerHarness:
        return docker_harness
