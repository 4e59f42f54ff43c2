"""A real Kubernetes for the tests.

`sharing.py` starts `supervisor.py`, which runs one cluster: `control_plane.py` and one `node.py`
for each node, on the bridge of `network.py`. Tests use it as a `Cluster` (`cluster.py`).
"""

from tests.support.kubernetes.client import ApiError
from tests.support.kubernetes.cluster import Cluster, OwnCluster, TestNode
from tests.support.kubernetes.sharing import own_cluster, shared_cluster

__all__ = ["ApiError", "Cluster", "OwnCluster", "TestNode", "own_cluster", "shared_cluster"]
