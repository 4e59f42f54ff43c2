"""The Coolify backend: each container is an application of build pack `dockerimage`.

The backend holds the fences itself, in the application's environment (`fence.py`), so that they
hold across replicas and restarts. What no fence can catch, because Coolify takes no condition with
a request:

- a stop that was sent by a replica which then froze, and that arrives after the hand-over, stops
  the next bot's container. The next look shows it exited, and the bot fails as `container_exited`;
- a start whose request Coolify takes up only after the next call has looked for its deployment is
  issued a second time. Coolify itself refuses the second while the first is queued or in progress.
"""

from botpool.backends.coolify.backend import CoolifyBackend
from botpool.backends.coolify.config import CoolifyConfig

__all__ = ["CoolifyBackend", "CoolifyConfig"]
