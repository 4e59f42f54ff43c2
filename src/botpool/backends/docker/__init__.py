"""The Docker backend: a slot is a container name at one daemon, each bot a fresh container of it.

`places.py` says what stands at the daemon for a slot and what that means; `daemon.py` asks and
tells the daemon; `starting.py`, `stopping.py` and `making.py` are loops of one form: read what
stands there, decide, make one step, read again. So whoever comes twice, late or at once with
another finds the other's step and goes on from it. Only pulls are kept in memory (`pulling.py`).

What no fence can catch, because Docker takes no condition with a request:

- a start that a frozen replica sent off when it was still right, and that arrives after that very
  container ran and ended, runs it again. Its agent asks who it is before it joins, and is told to
  exit; recovery stops what runs in an idle slot;
- when a place is deleted and made again, what was stopped there before is forgotten.
"""

from botpool.backends.docker.backend import DockerBackend
from botpool.backends.docker.config import DockerConfig

__all__ = ["DockerBackend", "DockerConfig"]
