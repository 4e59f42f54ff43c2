"""One node: a containerd and a kubelet.

The options suit a machine with cgroup v1 and without CAP_SYS_RESOURCE, as a container or a small
virtual machine is, and a disk that the node shares with the rest of the machine.
"""

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.kubernetes.certificates import Certificates
from tests.support.kubernetes.child_processes import Child
from tests.support.kubernetes.network import Network, write_json
from tests.support.kubernetes.programs import CNI_PLUGINS, PROGRAM_PATH, Programs

PAUSE_IMAGE = "botpool.test/pause:1"
_REPORT_S = 4

_CONTAINERD = """\
version = 2
root = "{directory}/containerd"
state = "{directory}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{directory}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE, no process may lower its score.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{directory}/runc"
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{directory}/cni"
"""

_RUNC = """\
#!/bin/sh
# runc, without the scores for the OOM killer, which this machine may refuse.
for word in "$@"; do
    [ "${{previous:-}}" = --bundle ] && sed -i -E \\
        's/,"oomScoreAdj":-?[0-9]+//; s/"oomScoreAdj":-?[0-9]+,//' "$word/config.json"
    previous=$word
done
exec {runc} "$@"
"""


class Node:
    def __init__(
        self,
        number: int,
        directory: Path,
        programs: Programs,
        network: Network,
        certificates: Certificates,
        labels: Mapping[str, str],
        taints: list[Mapping[str, str]],
    ) -> None:
        self.name = f"node-{number}"
        self._directory = directory / self.name
        self._directory.mkdir()
        self._programs = programs
        self._address = network.node_address(number)
        self._authority = certificates.path("ca.pem")
        self._write_configuration(network, directory / "pod-addresses", taints)
        self.containerd = Child(
            f"containerd of {self.name}",
            self._directory / "containerd.log",
            [programs.path("containerd"), "--config", f"{self._directory}/containerd.toml"],
            {},
        )
        self.kubelet = Child(
            f"kubelet of {self.name}",
            self._directory / "kubelet.log",
            [
                programs.path("kubelet"),
                f"--config={self._directory}/kubelet.json",
                f"--kubeconfig={certificates.kubeconfig(self.name)}",
                f"--root-dir={self._directory}/kubelet",
                f"--cert-dir={self._directory}/kubelet-certificates",
                f"--hostname-override={self.name}",
                f"--node-ip={self._address}",
                "--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
            ],
            {},
        )

    def start(self, pause_archive: Path) -> None:
        self.containerd.start()
        self.containerd.wait_until(lambda: self._ctr("version").returncode == 0)
        self.import_image(pause_archive)
        self.kubelet.start()

    def import_image(self, archive: Path) -> None:
        done = self._ctr("images", "import", "--snapshotter", "native", str(archive))
        assert done.returncode == 0, done.stderr

    def running_containers(self) -> list[Mapping[str, Any]]:
        """Ask containerd, not the kubelet, which containers run: id, pod, container name."""
        running = self._ctr("tasks", "list").stdout.splitlines()[1:]
        ids = [line.split()[0] for line in running if "RUNNING" in line.split()]
        found = []
        for each in ids:
            described = self._ctr("containers", "info", each)
            if described.returncode == 0:
                found.append(_description(described.stdout))
        return [each for each in found if each["container"]]

    def stop(self) -> None:
        """Kill the kubelet, end the containers so that their cgroups go, and kill containerd."""
        self.kubelet.stop(signal.SIGKILL)
        self._end_containers()
        self.containerd.stop(signal.SIGKILL)

    def _end_containers(self) -> None:
        for line in self._ctr("tasks", "list").stdout.splitlines()[1:]:
            self._ctr("tasks", "delete", "--force", line.split()[0])

    @property
    def children(self) -> list[Child]:
        return [self.containerd, self.kubelet]

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        socket = f"{self._directory}/containerd.sock"
        return subprocess.run(
            [self._programs.path("ctr"), "--address", socket, "--namespace", "k8s.io", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": PROGRAM_PATH},
        )

    def _write_configuration(
        self, network: Network, pod_addresses: Path, taints: list[Mapping[str, str]]
    ) -> None:
        here = self._directory
        runc = here / "runc"
        runc.write_text(_RUNC.format(runc=self._programs.path("runc")))
        runc.chmod(0o755)
        (here / "containerd.toml").write_text(
            _CONTAINERD.format(directory=here, pause=PAUSE_IMAGE, plugins=CNI_PLUGINS)
        )
        write_json(here / "cni" / "10-botpool.conflist", network.pod_network(pod_addresses))
        write_json(here / "kubelet.json", self._kubelet_configuration(taints))

    def _kubelet_configuration(self, taints: list[Mapping[str, str]]) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._address,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self._authority)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self._directory}/containerd.sock",
            "podLogsDir": f"{self._directory}/pod-logs",
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            "nodeStatusUpdateFrequency": f"{_REPORT_S}s",
            "nodeStatusReportFrequency": f"{_REPORT_S}s",
            "nodeLeaseDurationSeconds": 4 * _REPORT_S,
            "registerWithTaints": taints,
            # The node shares its disk with the rest of the machine.
            "evictionHard": {
                "imagefs.available": "0%",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "maxPods": 110,
        }


def _description(described: str) -> Mapping[str, Any]:
    found = json.loads(described)
    labels = found.get("Labels") or {}
    return {
        "id": found["ID"],
        "pod": labels.get("io.kubernetes.pod.name"),
        "uid": labels.get("io.kubernetes.pod.uid"),
        "namespace": labels.get("io.kubernetes.pod.namespace"),
        "container": labels.get("io.kubernetes.container.name"),
    }
