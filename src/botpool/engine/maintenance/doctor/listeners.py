"""Checks of the replicas' HTTP servers: their limit of open files, and whether they answer."""

from collections.abc import AsyncIterator, Sequence

from botpool.domain.errors import BotpoolError
from botpool.engine.maintenance.doctor.findings import Check, Finding
from botpool.store.liveness import Listener, list_listeners
from botpool.store.readonly_connection import ReadonlyConnection

_LIVE_S = 60.0

FILE_LIMIT = Check(
    name="file_limit",
    meaning="every replica may open enough files for limits.connections",
    remedy="Raise the hard limit of open files (LimitNOFILE in the systemd unit, ulimits in Docker "
    "Compose) and restart the replica, or lower limits.connections.",
)
LISTENER = Check(
    name="listener",
    meaning="every replica accepted connections and answered in the last day",
    remedy="Read botpool_connections_closed_total and the log (listener.not_answering). Put a "
    "reverse proxy in front of Botpool, or raise limits.connections. Silence of bots in that time "
    "does not count.",
)

CHECKS = (FILE_LIMIT, LISTENER)


def file_limit_finding(listeners: Sequence[Listener]) -> Finding:
    """Report live replicas whose limit of open files is too low for their connections."""
    known = [(each.replica, each.file_limit or 0, each.files_needed) for each in listeners]
    low = [
        f"{replica} may open {limit} files and needs {needed}"
        for replica, limit, needed in known
        if needed is not None and limit < needed
    ]
    return FILE_LIMIT.warning("; ".join(low)) if low else FILE_LIMIT.ok()


def listener_finding(listeners: Sequence[Listener]) -> Finding:
    """Report replicas that did not answer their own check lately."""
    failed = [
        f"{each.replica} at {each.unanswered_at:%Y-%m-%dT%H:%M:%SZ}"
        for each in listeners
        if each.unanswered_at is not None
    ]
    return LISTENER.warning(f"no answer: {', '.join(failed)}") if failed else LISTENER.ok()


async def check_listeners(connection: ReadonlyConnection) -> AsyncIterator[Finding]:
    """Report what the replicas have recorded about their HTTP servers."""
    try:
        listeners = await list_listeners(connection, within_s=_LIVE_S)
    except BotpoolError as error:
        yield FILE_LIMIT.not_checked(error)
        return
    yield file_limit_finding([each for each in listeners if each.is_alive])
    yield listener_finding(listeners)
