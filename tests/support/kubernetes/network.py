"""The network of one cluster: a bridge of this machine with addresses of the cluster's own.

The API server and the nodes listen on addresses of the bridge, so that several clusters and several
nodes use their usual ports beside each other, and so that pods reach them. There is no kube-proxy:
the only Service address that works is that of the API server.
"""

import json
import random
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.kubernetes.programs import PROGRAM_PATH, CannotRun

_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    number: int

    @classmethod
    def create(cls) -> Self:
        """Create the bridge under a number that no other cluster has."""
        error = ""
        for number in random.sample(range(1, 255), _TRIES):
            network = cls(number=number)
            created = _ip("link", "add", network.bridge, "type", "bridge")
            if created.returncode == 0:
                break
            error = created.stderr.strip()
        else:
            raise CannotRun(f"this machine creates no bridge: {error}")
        for command in (
            ("addr", "add", f"{network.gateway}/24", "dev", network.bridge),
            ("addr", "add", f"{network.api_server}/32", "dev", network.bridge),
            ("link", "set", network.bridge, "up"),
        ):
            _ip(*command, check=True)
        return network

    @property
    def bridge(self) -> str:
        return f"bpk{self.number}"

    @property
    def gateway(self) -> str:
        """The address of this machine as the pods see it."""
        return f"10.214.{self.number}.1"

    @property
    def services(self) -> str:
        return f"10.215.{self.number}.0/24"

    @property
    def api_server(self) -> str:
        """The address of the Service `kubernetes`: the first one of its range."""
        return f"10.215.{self.number}.1"

    def node_address(self, number: int) -> str:
        """Add the address of a node to the bridge and return it; a repeat changes nothing."""
        address = f"10.214.{self.number}.{1 + number}"
        _ip("addr", "replace", f"{address}/24", "dev", self.bridge, check=True)
        return address

    def pod_network(self, data_dir: Path) -> Mapping[str, Any]:
        """Return the CNI configuration; all nodes draw the addresses of pods from one range."""
        return {
            "cniVersion": "0.4.0",
            "name": "botpool",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": self.bridge,
                    "ipMasq": False,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(data_dir),
                        "ranges": [
                            [
                                {
                                    "subnet": f"10.214.{self.number}.0/24",
                                    "rangeStart": f"10.214.{self.number}.64",
                                    "rangeEnd": f"10.214.{self.number}.254",
                                    "gateway": self.gateway,
                                }
                            ]
                        ],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }

    def remove(self) -> None:
        _ip("link", "del", self.bridge)


def write_json(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    return path


def _ip(*command: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    arguments: Sequence[str] = ("ip", *command)
    return subprocess.run(
        arguments, check=check, capture_output=True, text=True, env={"PATH": PROGRAM_PATH}
    )
