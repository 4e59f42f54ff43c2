"""The Kubernetes backend: a slot is a name, and each run of it is one bare Pod.

`pod_template.py` builds a Pod and `pod_state.py` decides what a Pod means; both are pure. `api.py`
sends the requests of one operation through `connection.py`. `start.py`, `stop.py` and `observe.py`
are the operations, `watch.py` gives hints between observations, and `chores.py` does what no caller
waits for.

Two late effects cannot be prevented, and neither runs a bot:

- A create that arrives late leaves a Pod that is never scheduled; the cleanup removes it.
- Anyone who may patch Pods in the namespace can open a gate or remove our finalizer.
"""

from botpool.backends.kubernetes.backend import KubernetesBackend
from botpool.backends.kubernetes.config import KubernetesConfig, PoolIsolation

__all__ = ["KubernetesBackend", "KubernetesConfig", "PoolIsolation"]
