"""The Kubernetes backend passes the conformance suite, on a real cluster."""

import pytest

from tests.backends.conformance import BackendConformance
from tests.backends.kubernetes_harness import KubernetesHarness


class TestKubernetesBackend(BackendConformance):
    @pytest.fixture
    def harness(self, kubernetes_harness: KubernetesHarness) -> KubernetesHarness:
        return kubernetes_harness
