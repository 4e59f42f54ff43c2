"""The calls for slots and their maintenance. They need a key with scope `operator`."""

from collections.abc import AsyncGenerator
from typing import Any

from botpool.client.calls import PAGE, Calls
from botpool.client.records import (
    Assignment,
    CleanupResult,
    Page,
    RecoveryResult,
    Slot,
    SlotEvent,
)
from botpool.client.synchronous import Synchronous, iterated, synchronous


class AsyncSlotCalls(Calls):
    """Slots, their history, and the passes that maintain them."""

    def slots(
        self,
        *,
        platform: str | None = None,
        status: str | None = None,
        container_id: str | None = None,
        bot_id: int | None = None,
    ) -> AsyncGenerator[Slot, None]:
        """Slots by pool and number; or the slot that has a container or a bot now."""
        chosen = _chosen(platform, status, container_id, bot_id)
        return self._pages(Slot, "/v1/slots", "slots", **chosen)

    async def slots_page(
        self,
        *,
        platform: str | None = None,
        status: str | None = None,
        container_id: str | None = None,
        bot_id: int | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Page[Slot]:
        """One page of the matching slots, by pool and number."""
        chosen = _chosen(platform, status, container_id, bot_id)
        return await self._page(Slot, "/v1/slots", "slots", **chosen, limit=limit, cursor=cursor)

    async def slot(self, slot_id: int) -> Slot:
        return await self._slot("GET", slot_id)

    def slot_history(self, slot_id: int) -> AsyncGenerator[SlotEvent, None]:
        """A slot's transitions, newest first."""
        return self._pages(SlotEvent, f"/v1/slots/{slot_id}/history", "events")

    async def slot_history_page(
        self, slot_id: int, *, limit: int = PAGE, cursor: str | None = None
    ) -> Page[SlotEvent]:
        """One page of a slot's transitions, newest first."""
        path = f"/v1/slots/{slot_id}/history"
        return await self._page(SlotEvent, path, "events", limit=limit, cursor=cursor)

    def slot_assignments(self, slot_id: int) -> AsyncGenerator[Assignment, None]:
        """The bots that a slot had, newest first."""
        return self._pages(Assignment, f"/v1/slots/{slot_id}/assignments", "assignments")

    async def slot_assignments_page(
        self, slot_id: int, *, limit: int = PAGE, cursor: str | None = None
    ) -> Page[Assignment]:
        """One page of the bots that a slot had, newest first."""
        path = f"/v1/slots/{slot_id}/assignments"
        return await self._page(Assignment, path, "assignments", limit=limit, cursor=cursor)

    async def cordon_slot(self, slot_id: int) -> Slot:
        """Let a slot finish its bot and take no other."""
        return await self._slot("POST", slot_id, "/cordon")

    async def uncordon_slot(self, slot_id: int) -> Slot:
        return await self._slot("POST", slot_id, "/uncordon")

    async def release_slot(
        self, slot_id: int, *, force: bool = False, bot_id: int | None = None
    ) -> Slot:
        """Take a slot from its bot, which fails with code `operator`.

        `force` releases a slot whose stop cannot be confirmed; its container may still run. It
        needs a key with scope `admin`. `bot_id` refuses the release if the slot has another bot.
        """
        params = {"force": "true"} if force else {}
        if bot_id is not None:
            params["botId"] = str(bot_id)
        return await self._slot("POST", slot_id, "/release", repeatable=False, params=params)

    async def recover_slot(self, slot_id: int) -> Slot:
        """Reset a slot now."""
        return await self._slot("POST", slot_id, "/recover", repeatable=False)

    async def delete_slot(self, slot_id: int, *, force: bool = False) -> Slot:
        """Delete a slot and its container; a slot with a live bot only with `force`."""
        params = {"force": "true"} if force else {}
        return await self._slot("DELETE", slot_id, repeatable=False, params=params)

    async def recover(self) -> RecoveryResult:
        """Run the recovery pass now."""
        return await self._record(RecoveryResult, "POST", "/v1/maintenance/recover")

    async def cleanup(self, *, force: bool = False) -> CleanupResult:
        """Run the cleanup now. `force` deletes stray containers even if there are many of them."""
        params = {"force": "true"} if force else {}
        return await self._record(CleanupResult, "POST", "/v1/maintenance/cleanup", params=params)

    async def _slot(self, method: str, slot_id: int, action: str = "", **request: Any) -> Slot:
        return await self._record(Slot, method, f"/v1/slots/{slot_id}{action}", "slot", **request)


class SlotCalls(Synchronous):
    """The synchronous calls for slots."""

    slots = iterated(AsyncSlotCalls.slots)
    slots_page = synchronous(AsyncSlotCalls.slots_page)
    slot = synchronous(AsyncSlotCalls.slot)
    slot_history = iterated(AsyncSlotCalls.slot_history)
    slot_history_page = synchronous(AsyncSlotCalls.slot_history_page)
    slot_assignments = iterated(AsyncSlotCalls.slot_assignments)
    slot_assignments_page = synchronous(AsyncSlotCalls.slot_assignments_page)
    cordon_slot = synchronous(AsyncSlotCalls.cordon_slot)
    uncordon_slot = synchronous(AsyncSlotCalls.uncordon_slot)
    release_slot = synchronous(AsyncSlotCalls.release_slot)
    recover_slot = synchronous(AsyncSlotCalls.recover_slot)
    delete_slot = synchronous(AsyncSlotCalls.delete_slot)
    recover = synchronous(AsyncSlotCalls.recover)
    cleanup = synchronous(AsyncSlotCalls.cleanup)


def _chosen(
    platform: str | None, status: str | None, container_id: str | None, bot_id: int | None
) -> dict[str, Any]:
    return {"platform": platform, "status": status, "containerId": container_id, "botId": bot_id}
