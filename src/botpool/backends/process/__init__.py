"""The process backend: containers are local processes, for trials, the demo and tests.

It keeps all rules of the Protocol, even when the control plane is killed. `launcher.py` runs and
supervises one program, and `fork_server.py` forks launchers. `container_directory.py` is one
container on disk, `container_root.py` the folder of all containers. `run_lock.py` tells whether a
container runs, `terminate.py` ends a run, `exit_watcher.py` notices exits and `logs.py` reads
output. `bot_users.py` chooses the user of each run.
"""

from botpool.backends.process.backend import ProcessBackend
from botpool.backends.process.bot_users import OUR_USER, BotUsers, bot_users

__all__ = ["OUR_USER", "BotUsers", "ProcessBackend", "bot_users"]
