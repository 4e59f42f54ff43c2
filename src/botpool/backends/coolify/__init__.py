"""The Coolify backend: each container is an application of build pack `dockerimage`.

The fences are stored in the application's environment (`fence.py`), so they hold across replicas
and restarts. Coolify accepts no conditions with a request, so two late effects cannot be prevented:

- A replica sends a stop, then freezes. If the stop arrives after the hand-over, it stops the next
  bot's container. The next observation shows the container as exited, and the bot fails with
  `container_exited`.
- Coolify registers a start only after the next call has searched for its deployment, so the call
  starts again. Coolify rejects the second start while the first is queued or in progress.
"""

from botpool.backends.coolify.backend import CoolifyBackend
from botpool.backends.coolify.config import CoolifyConfig

__all__ = ["CoolifyBackend", "CoolifyConfig"]
