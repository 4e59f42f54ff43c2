"""Routes for operators: slots, the recovery pass and the cleanup."""

from fastapi import APIRouter

from botpool.api import operator_schemas as schemas
from botpool.api.auth import Operator, Service, require_scope
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.paging import Limit, PageCursor, decode_cursor, encode_cursor
from botpool.api.parameters import (
    BotQuery,
    ContainerQuery,
    CorrelationHeader,
    PlatformQuery,
    SlotPath,
)
from botpool.api.problems import error_responses
from botpool.domain.errors import SlotInUse
from botpool.domain.ids import SlotId
from botpool.domain.pages import AssignmentPosition, SlotEventPosition, SlotPosition
from botpool.domain.states import SlotStatus
from botpool.engine.replica import Replica

_ERRORS = error_responses(401, 403, 404, 422, 503)

routes = APIRouter(prefix="/v1", tags=["operators"], route_class=AuthenticatedRoute)


@routes.get("/slots", responses=error_responses(401, 403, 422, 503))
async def list_slots(
    replica: Service,
    _: Operator,
    platform: PlatformQuery = None,
    status: SlotStatus | None = None,
    container_id: ContainerQuery = None,
    bot_id: BotQuery = None,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> schemas.Slots:
    """List slots, ordered by pool and number; or the slot that has a container or a bot now.

    `nextCursor` leads to the next page.
    """
    after = decode_cursor(SlotPosition, cursor)
    if container_id is not None or bot_id is not None:
        found = await replica.queries.slots_with(
            container_id=container_id, bot_id=bot_id, pool_name=platform, status=status
        )
        return schemas.Slots(slots=[schemas.Slot.of(slot) for slot in found])
    page = await replica.queries.slots(pool_name=platform, status=status, after=after, limit=limit)
    return schemas.Slots(
        slots=[schemas.Slot.of(slot) for slot in page.items], next_cursor=encode_cursor(page.next)
    )


@routes.get("/slots/{id}", responses=_ERRORS)
async def get_slot(replica: Service, _: Operator, slot_id: SlotPath) -> schemas.SlotResponse:
    """Get one slot."""
    return await _slot_response(replica, slot_id)


@routes.get("/slots/{id}/history", responses=_ERRORS)
async def slot_history(
    replica: Service,
    _: Operator,
    slot_id: SlotPath,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> schemas.SlotHistory:
    """Get the slot's history, newest first, even after the slot was deleted.

    A page has at most 1 MiB of data, so it can be short and still have a `nextCursor`.
    """
    page = await replica.queries.slot_history(
        slot_id, before=decode_cursor(SlotEventPosition, cursor), limit=limit
    )
    return schemas.SlotHistory(
        events=[schemas.SlotEvent.of(row) for row in page.items],
        next_cursor=encode_cursor(page.next),
    )


@routes.get("/slots/{id}/assignments", responses=_ERRORS)
async def slot_assignments(
    replica: Service,
    _: Operator,
    slot_id: SlotPath,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> schemas.Assignments:
    """Get the assignments of the slot, newest first."""
    page = await replica.queries.slot_assignments(
        slot_id, before=decode_cursor(AssignmentPosition, cursor), limit=limit
    )
    return schemas.Assignments(
        assignments=[schemas.Assignment.of(each) for each in page.items],
        next_cursor=encode_cursor(page.next),
    )


@routes.post("/slots/{id}/cordon", status_code=202, responses=_ERRORS)
async def cordon_slot(
    replica: Service, caller: Operator, slot_id: SlotPath, correlation_id: CorrelationHeader = None
) -> schemas.SlotResponse:
    """Cordon a slot: it finishes its bot and takes no other."""
    reason = f"cordoned by {caller.key_name}"
    await replica.pools.cordon(slot_id, cordoned=True, reason=reason, correlation_id=correlation_id)
    return await _slot_response(replica, slot_id)


@routes.post("/slots/{id}/uncordon", status_code=202, responses=_ERRORS)
async def uncordon_slot(
    replica: Service, caller: Operator, slot_id: SlotPath, correlation_id: CorrelationHeader = None
) -> schemas.SlotResponse:
    """Uncordon a slot: it takes bots again."""
    reason = f"uncordoned by {caller.key_name}"
    await replica.pools.cordon(
        slot_id, cordoned=False, reason=reason, correlation_id=correlation_id
    )
    return await _slot_response(replica, slot_id)


@routes.post("/slots/{id}/release", status_code=202, responses={**_ERRORS, **error_responses(409)})
async def release_slot(
    replica: Service,
    caller: Operator,
    slot_id: SlotPath,
    force: bool = False,
    bot_id: BotQuery = None,
) -> schemas.SlotResponse:
    """Release a slot: its bot fails with the code `operator`, and its container is stopped.

    `force` (scope `admin`) frees a releasing slot whose stop cannot be confirmed. If the container
    still runs on its unreachable node, the next bot of the slot, or the same bot once more, runs
    beside it. `botId` refuses the forced release if the slot has another bot by now.
    """
    if force:
        require_scope(caller, "admin")
        await replica.forced_release.release(slot_id, key_name=caller.key_name, bot_id=bot_id)
    else:
        await replica.slot_commands.release(slot_id, reason=f"released by {caller.key_name}")
    return await _slot_response(replica, slot_id)


@routes.post("/slots/{id}/recover", status_code=202, responses=_ERRORS)
async def recover_slot(
    replica: Service, caller: Operator, slot_id: SlotPath, correlation_id: CorrelationHeader = None
) -> schemas.SlotResponse:
    """Reset a slot now. A deploying bot is retried; a running bot fails."""
    await replica.slot_commands.recover(
        slot_id, reason=f"recovered by {caller.key_name}", correlation_id=correlation_id
    )
    return await _slot_response(replica, slot_id)


@routes.delete("/slots/{id}", status_code=202, responses={**_ERRORS, **error_responses(409)})
async def delete_slot(
    replica: Service,
    caller: Operator,
    slot_id: SlotPath,
    correlation_id: CorrelationHeader = None,
    force: bool = False,
) -> schemas.SlotResponse:
    """Delete a slot and its container. A slot with a bot needs `force`; the bot then fails."""
    slot = await _slot_response(replica, slot_id)
    reason = f"deleted by {caller.key_name}"
    if force:
        await replica.slot_commands.delete(slot_id, reason=reason, correlation_id=correlation_id)
        return slot
    if not await replica.pools.remove(slot_id, reason=reason, correlation_id=correlation_id):
        raise SlotInUse(slot_id)
    return schemas.SlotResponse(slot=slot.slot.model_copy(update={"status": SlotStatus.DELETING}))


@routes.post("/maintenance/recover", responses=error_responses(401, 403, 503))
async def recover(replica: Service, _: Operator) -> schemas.RecoveryCounts:
    """Run the recovery pass now and return its counts."""
    return schemas.RecoveryCounts.of(await replica.recovery.recover())


@routes.post("/maintenance/cleanup", responses=error_responses(401, 403, 422, 503))
async def cleanup(replica: Service, _: Operator, force: bool = False) -> schemas.CleanupCounts:
    """Run the cleanup now. `force` deletes stray containers even if there are many of them."""
    return schemas.CleanupCounts.of(await replica.cleanup.clean(all_strays=force))


async def _slot_response(replica: Replica, slot_id: SlotId) -> schemas.SlotResponse:
    slot = await replica.queries.slot(slot_id)
    return schemas.SlotResponse(slot=schemas.Slot.of(slot))
