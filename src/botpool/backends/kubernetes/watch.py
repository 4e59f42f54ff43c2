"""Converts a watch of our Pods to hints. The periodic observation covers events that are lost.

A version that is too old arrives as the status 410 or as an event with code 410, whose status is
200. After both, and after every broken stream, the watch starts again with a list, and every slot
of the list gets a hint: no stale view remains.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from botpool.backends.kubernetes import names, pod_list
from botpool.backends.kubernetes.connection import Call, Connection, Operation
from botpool.backends.kubernetes.pod_state import Pod, has_stopped, waiting_reason
from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BackendError, BackendUnavailable
from botpool.domain.ids import ContainerId

_FIRST_WAIT_S, _MAX_WAIT_S = 0.2, 5.0
_WATCH_S = 300
_SILENCE_S = 90.0
"""A watch without a byte for so long is dead: bookmarks arrive about every minute."""
_LIST_TIMEOUT_S = 20.0


@dataclass(slots=True, kw_only=True)
class _View:
    """What the watch has announced, so that each change is announced once."""

    announced: dict[str, str] = field(default_factory=dict)

    def is_news(self, kind: str, pod: Pod) -> bool:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.announced.pop(uid, None)
            return True
        state = "ended" if has_stopped(pod) else waiting_reason(pod)
        if not state or self.announced.get(uid) == state:
            return False
        self.announced[uid] = state
        return True


async def hints(connection: Connection, installation_id: str) -> AsyncIterator[ContainerId]:
    """Yield the slots whose Pods end, vanish or fail to start; after an interruption, all."""
    wait_s, view = _FIRST_WAIT_S, _View()
    is_first = True
    while True:
        with contextlib.suppress(BackendError, httpx.HTTPError):
            version, pods = await _list(connection, installation_id, only_version=is_first)
            view.announced.clear()
            for pod in pods:
                view.is_news("ADDED", pod)
                if not is_first and (slot := _container_id(pod, installation_id)):
                    yield slot
            is_first = False
            watch = _watch(connection, installation_id, version)
            async with contextlib.aclosing(watch):
                async for kind, pod in watch:
                    wait_s = _FIRST_WAIT_S
                    slot = _container_id(pod, installation_id)
                    if slot is not None and view.is_news(kind, pod):
                        yield slot
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _MAX_WAIT_S)


async def _list(
    connection: Connection, installation_id: str, *, only_version: bool
) -> tuple[str, Sequence[Pod]]:
    """List our Pods and the version at which the watch begins."""
    operation = Operation(
        name="watch",
        purpose=RequestPurpose.OBSERVE,
        timeout_s=_LIST_TIMEOUT_S,
        is_per_request=True,
    )
    selector = names.selector(installation_id)
    if not only_version:
        return await pod_list.list_pods(connection, operation, selector)
    pages = pod_list.pages(connection, operation, selector, size=1)
    async with contextlib.aclosing(pages):
        page = await anext(pages)
    return page.version, page.pods


async def _watch(
    connection: Connection, installation_id: str, version: str
) -> AsyncGenerator[tuple[str, Pod], None]:
    """Yield events until the watch has to start again with a list."""
    while True:
        query = {
            "labelSelector": names.selector(installation_id),
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        call = Call(method="GET", path=connection.pods_path, query=query)
        async with connection.stream(call, silence_s=_SILENCE_S) as received:
            if received.status_code != 200:
                return
            async for line in received.aiter_lines():
                event = _parse(line)
                thing = event.get("object") or {}
                if event.get("type") == "ERROR":
                    return
                version = thing.get("metadata", {}).get("resourceVersion", version)
                if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
                    yield event["type"], thing


def _parse(line: str) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        raise BackendUnavailable("watch: the stream was cut") from None
    return event if isinstance(event, Mapping) else {}


def _container_id(pod: Pod, installation_id: str) -> ContainerId | None:
    slot = (pod["metadata"].get("labels") or {}).get(names.SLOT_LABEL)
    return names.container_id_of(installation_id, slot) if slot else None
