"""Our own statements, sent by the least client there could be: that of the sketch.

The rows, guards, locks and fences are the product's. What is left out is what the product does with
them: records, log lines, figures, the second way where somebody waits.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from bench.cycles import POOL, WISH
from bench.sketch import Sketch
from botpool.engine.admission.bot_requests import AdmissionRequest, columns
from botpool.engine.admission.matcher import lock
from botpool.store.named_connection import Call, NamedConnection, Rows

_WISH = AdmissionRequest(request=WISH, key=None)

_Stay: TypeAlias = tuple[int, int]


class LeastClient(Sketch):
    connection_class = NamedConnection
    slots_table = "bot_pool_slots"

    def __init__(self, url: str, connections: list[NamedConnection]) -> None:
        super().__init__(url, connections)
        self._versions: dict[int, int] = {}

    async def _claim(self, wishes: Sequence[object]) -> list[_Stay | None]:
        asked = columns([_WISH] * len(wishes), idempotency_days=7)
        (rows,) = await self._together(("admit_to_idle_slots", asked))
        found = {row["n"]: (row["slot_id"], row["assignment_id"]) for row in rows}
        return [found.get(n) for n in range(1, len(wishes) + 1)]

    async def _ended(self, stays: Sequence[_Stay]) -> list[bool]:
        none = [None] * len(stays)
        (rows,) = await self._together(
            (
                "end_bots",
                {
                    "assignment_ids": [stay for _, stay in stays],
                    "versions": none,
                    "statuses": ["CANCELLED"] * len(stays),
                    "failure_codes": none,
                    "failure_reasons": none,
                    "reasons": ["stopped by its user"] * len(stays),
                    "hold_leases": [False] * len(stays),
                    "silent_since": none,
                },
            )
        )
        ended = {row["slot_id"]: row["version"] for row in rows}
        self._versions |= ended
        return [slot in ended for slot, _ in stays]

    async def _freed(self, stays: Sequence[_Stay]) -> list[bool]:
        freeing: dict[str, Any] = {
            "pool_name": POOL,
            "match_follows": False,
            "slot_ids": [slot for slot, _ in stays],
            "assignment_ids": [stay for _, stay in stays],
            "versions": [self._versions[slot] for slot, _ in stays],
            "statuses": ["idle"] * len(stays),
            "error_messages": [None] * len(stays),
            "containers_gone": [False] * len(stays),
            "reasons": ["the stop was confirmed"] * len(stays),
        }
        _, rows = await self._together(lock(POOL), ("free_slots", freeing))
        freed = {row["slot_id"] for row in rows}
        return [slot in freed for slot, _ in stays]

    async def _together(self, *calls: Call) -> list[Rows]:
        connection = self._at_rest.pop()
        try:
            return await connection.run(*calls)
        finally:
            self._at_rest.append(connection)
