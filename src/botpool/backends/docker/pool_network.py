"""The network of a pool: created at the first start, and found by its labels afterwards.

A container of one pool cannot reach the containers of another pool or of its own: Docker separates
networks, and `enable_icc` separates the containers within one. Two replicas may create a network at
the same time, and Docker then has two networks with one name, which no container can join. Each
start keeps the oldest and removes the others; a replica that dies in between leaves this to the
next start.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from botpool.backends.docker.slot_containers import INSTALLATION_LABEL, POOL_LABEL

_INVALID = re.compile(r"[^A-Za-z0-9_.-]")


def network_labels(installation_id: str, pool_name: str) -> Mapping[str, str]:
    return {INSTALLATION_LABEL: installation_id, POOL_LABEL: pool_name}


def network_body(installation_id: str, pool_name: str) -> dict[str, Any]:
    """Return the body of Docker's request to create the network."""
    return {
        "Name": _INVALID.sub("-", f"botpool-{installation_id}-{pool_name}"),
        "Driver": "bridge",
        "CheckDuplicate": True,
        "Labels": dict(network_labels(installation_id, pool_name)),
        "Options": {"com.docker.network.bridge.enable_icc": "false"},
    }


def oldest_first(listed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the networks in Docker's list, in the same order for all replicas."""
    return [
        str(network_id)
        for _, network_id in sorted((network["Created"], network["Id"]) for network in listed)
    ]
