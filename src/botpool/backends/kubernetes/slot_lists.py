"""Lists the Pods of slots, several slots with one request."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.pod_list import grouped_by_slot
from botpool.backends.kubernetes.pod_state import Pod
from botpool.domain.errors import BackendUnavailable

_MAX_SLOTS = 50
"""Slots that one selector names: it is part of the address of the request."""

ReadSelector = Callable[[str], Awaitable[Sequence[Pod]]]


class SlotLists:
    """Lists the Pods of slots. Calls that arrive while a LIST runs share the next one.

    The API server reads all Pods of the namespace for a LIST of one slot, so that in a large pool
    a LIST for each new slot would take most of its time.
    """

    def __init__(self, read: ReadSelector, installation_id: str) -> None:
        self._read = read
        self._installation_id = installation_id
        self._waiting: dict[str, asyncio.Future[Sequence[Pod]]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def pods_of(self, slot: str) -> Sequence[Pod]:
        """Return the slot's Pods, from a LIST that begins after this call."""
        if slot not in self._waiting:
            self._waiting[slot] = asyncio.get_running_loop().create_future()
        answer = self._waiting[slot]
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_waiting(), name="kubernetes slot lists")
        # Shielded: a caller whose time is over must not cancel the answer of another.
        return await asyncio.shield(answer)

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read_waiting(self) -> None:
        asked: dict[str, asyncio.Future[Sequence[Pod]]] = {}
        try:
            while self._waiting:
                slots = list(self._waiting)[:_MAX_SLOTS]
                asked = {slot: self._waiting.pop(slot) for slot in slots}
                await self._answer(asked)
        finally:
            self._reader = None
            for answer in (*asked.values(), *self._waiting.values()):
                _fail(answer, BackendUnavailable("ensure: this replica stops"))
            self._waiting.clear()

    async def _answer(self, asked: Mapping[str, asyncio.Future[Sequence[Pod]]]) -> None:
        try:
            pods = await self._read(names.selector(self._installation_id, *asked))
        except Exception as error:  # Each caller handles it.
            for answer in asked.values():
                _fail(answer, error)
            return
        by_slot = grouped_by_slot(pods)
        for slot, answer in asked.items():
            answer.set_result(by_slot.get(names.label_value(slot), []))


def _fail(answer: asyncio.Future[Sequence[Pod]], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # Marks it as read: its caller may have gone.
