"""The limit of open files of this process, which must have room for all connections."""

import resource

import structlog

from botpool.api.connections import ConnectionLimits

_FEWEST_OTHERS = 256
"""Files besides connections: of the database, backends, process containers, locks and logs."""
_FEWEST_CONNECTIONS = 32
_MOST_WAITING = 1024

_log = structlog.get_logger()


def backlog_of(connections: int) -> int:
    """Return how many connections may wait to be accepted.

    The event loop accepts all of them at once, before it closes others to make room.
    """
    return min(_MOST_WAITING, connections // 4)


def files_needed(connections: int) -> int:
    """Return the limit of open files that this many connections need."""
    return connections + backlog_of(connections) + max(_FEWEST_OTHERS, connections // 4)


def allowed_files() -> int:
    """Return the limit of open files of this process."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_file_limit(needed: int) -> None:
    """Raise the limit of open files to this number, or as far as the hard limit allows.

    Programs of the process backend inherit the limit, so it is not raised further.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))


def lowered_to_file_limit(limits: ConnectionLimits, files: int) -> ConnectionLimits:
    """Return the limits, with fewer connections if they do not fit into the limit of open files."""
    needed = files_needed(limits.connections)
    if files >= needed:
        return limits
    fitting = min(int((files - _FEWEST_OTHERS) * 4 / 5), int(files * 2 / 3))
    lowered = limits.lowered_to(max(_FEWEST_CONNECTIONS, fitting))
    _log.warning(
        "connections.lowered",
        connections=lowered.connections,
        wanted=limits.connections,
        file_limit=files,
        files_needed=needed,
        remedy="Raise the limit of open files (LimitNOFILE), or lower limits.connections.",
    )
    return lowered
