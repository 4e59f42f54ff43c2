"""The conformance harness of the Kubernetes backend: a real cluster, one namespace per test."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from botpool.backends.kubernetes import KubernetesBackend, KubernetesConfig
from botpool.backends.kubernetes.access import find_access
from botpool.backends.kubernetes.api import Api
from botpool.backends.kubernetes.pod_state import Pod
from botpool.backends.protocol import StartRequest
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from tests.backends.docker_harness import RunReceiver, SimulatedKill
from tests.backends.harness import SPEC, Capabilities, ProgramRun, prepared
from tests.backends.scripted_kubernetes import GrantingBudget
from tests.support.bot_image import PYTHON, archive
from tests.support.kubernetes import Cluster

PROGRAM = Path(__file__).with_name("container_program.py")
IMAGE = f"docker.io/library/{SPEC.image}"
TEMPLATE = {
    # The program reports to this machine, and the image's only user is root.
    "spec": {"hostNetwork": True, "securityContext": {"runAsNonRoot": False}}
}


def import_program(cluster: Cluster) -> None:
    """Put the image of the conformance suite on the nodes."""
    files = {"/bot/program.py": PROGRAM.read_bytes()}
    cluster.import_image(archive([IMAGE], [PYTHON, "/bot/program.py"], files))


class InterruptibleTransport(httpx.AsyncHTTPTransport):
    """The transport of all backends of a harness, which an outage cuts."""

    is_cut = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if type(self).is_cut:
            raise httpx.ConnectError("cut by the test", request=request)
        return await super().handle_async_request(request)


class KubernetesHarness:
    capabilities = Capabilities(
        keeps_output=None, takes_effect_at_once=False, has_idle_containers=False, race_rounds=5
    )

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self._suffix = secrets.token_hex(4)
        self._reports = RunReceiver()
        self._open: list[KubernetesBackend] = []

        class Transport(InterruptibleTransport):
            """Cut separately from those of other harnesses."""

        self._transport = Transport

    def config(self, installation: str = "one") -> KubernetesConfig:
        return KubernetesConfig(
            installation_id=self.installation(installation),
            kubeconfig=self.cluster.kubeconfig,
            namespace=self.namespace,
            pod_template=TEMPLATE,
            shm_mb=16,
        )

    def installation(self, name: str = "one") -> str:
        return f"{name}-{self._suffix}"

    async def open_backend(
        self, installation: str = "one", start_s: float = 0, **settings: Any
    ) -> KubernetesBackend:
        """Open a backend; Kubernetes ignores `start_s`."""
        config = replace(self.config(installation), **settings)
        transport = self._transport(verify=find_access(config).tls)
        backend = KubernetesBackend(config, GrantingBudget(), transport=transport)
        await backend.open()
        self._open.append(backend)
        return backend

    def program_environment(self, assignment_id: AssignmentId, behaviour: str) -> Mapping[str, str]:
        return {
            "PROGRAM": behaviour,
            "ASSIGNMENT": str(assignment_id),
            "REPORT_TO": self._reports.url,
        }

    def runs(self, assignment_id: AssignmentId) -> Sequence[ProgramRun]:
        return self._reports.runs[str(assignment_id)]

    async def duplicate(self, container_id: ContainerId) -> ContainerId:
        """Leave what a late create leaves: a Pod of an older run that was never started."""
        backend = await self.open_backend()
        run = StartRequest(
            container_id=container_id,
            assignment_id=AssignmentId(0),
            correlation_id="duplicate",
            environment={},
        )
        await prepared(backend, run)
        return container_id

    async def crash_during_start(self, request: StartRequest) -> None:
        """Kill the replica after the API server has opened the gate."""
        killed = await self.open_backend()
        request = await prepared(killed, request)
        patch = Api.patch_pod

        async def patch_and_die(
            api: Api, name: str, uid: DeploymentId, body: Mapping[str, Any]
        ) -> Pod:
            await patch(api, name, uid, body)
            raise SimulatedKill

        with mock.patch.object(Api, "patch_pod", patch_and_die), suppress(SimulatedKill):
            await killed.start(request, timeout_s=30)

    @contextmanager
    def outage(self) -> Iterator[None]:
        self._transport.is_cut = True
        try:
            yield
        finally:
            self._transport.is_cut = False

    async def clear(self) -> None:
        for backend in self._open:
            await backend.close()
        self._reports.close()
