"""The Docker backend: a slot is a container name at one daemon; each bot gets a new container.

`slot_containers.py` reads the containers of a slot and decides what they mean; `daemon.py` sends
requests to the daemon. `start.py`, `stop.py` and `ensure.py` are loops: read the slot's containers,
decide, take one step, read again. A repeated, late or concurrent call therefore finds the steps of
the other call and continues from them. Only pulls are kept in memory (`pulls.py`).

Docker accepts no conditions with a request, so two late effects cannot be prevented:

- A replica sends a valid start, then freezes. If the start arrives after this container has run and
  ended, the container runs again. Its agent asks for its identity before it joins and gets the
  instruction to exit; recovery stops containers that run in an idle slot.
- When a slot's container is deleted and created again, the record of stopped assignments is lost.
"""

from botpool.backends.docker.backend import DockerBackend
from botpool.backends.docker.config import DockerConfig, PoolIsolation

__all__ = ["DockerBackend", "DockerConfig", "PoolIsolation"]
