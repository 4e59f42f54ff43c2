"""A cluster that a person provides, with these variables of the environment:

- `BOTPOOL_TEST_KUBECONFIG`: the kubeconfig of a user with full rights;
- `BOTPOOL_TEST_IMPORT`: a command that loads an image archive, which follows as its last word, into
  all nodes (`kind load image-archive`);
- `BOTPOOL_TEST_HOST_ADDRESS`: the address of this machine for the pods, 127.0.0.1 by default.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.components import missing
from tests.support.kubernetes.client import Kubectl
from tests.support.kubernetes.cluster import Cluster, TestNode

COMPONENT = "a Kubernetes cluster"


@contextlib.contextmanager
def foreign_cluster() -> Iterator["ForeignCluster"]:
    program = shutil.which("kubectl")
    if program is None:
        missing("kubectl", "BOTPOOL_TEST_KUBECONFIG is set: install kubectl")
    with tempfile.TemporaryDirectory() as cache:
        kubectl = Kubectl(program, Path(os.environ["BOTPOOL_TEST_KUBECONFIG"]), Path(cache))
        yield ForeignCluster(
            kubectl,
            shlex.split(os.environ.get("BOTPOOL_TEST_IMPORT", "")),
            os.environ.get("BOTPOOL_TEST_HOST_ADDRESS", "127.0.0.1"),
        )
        kubectl.close()


class ForeignCluster(Cluster):
    """The cluster of `BOTPOOL_TEST_KUBECONFIG`, whose nodes a test leaves alone."""

    def __init__(self, kubectl: Kubectl, import_command: Sequence[str], address: str) -> None:
        super().__init__(kubectl)
        self._import_command = import_command
        self._address = address

    @property
    def host_address(self) -> str:
        return self._address

    def import_image(self, archive: bytes) -> None:
        if not self._import_command:
            missing(COMPONENT, "BOTPOOL_TEST_IMPORT must name the command that loads an archive")
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            file.write(archive)
            file.flush()
            subprocess.run([*self._import_command, file.name], check=True, capture_output=True)

    @contextlib.contextmanager
    def node(self) -> Iterator[TestNode]:
        missing(COMPONENT, "unset BOTPOOL_TEST_KUBECONFIG: this test takes a node away")
        yield

    def program(self, name: str) -> str:
        found = shutil.which(name)
        if found is None:
            missing(name, f"install {name}")
        return found
