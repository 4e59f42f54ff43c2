"""Turns history into deliveries: the outbox of webhooks is the history itself.

Each webhook has a cursor over history. Reading moves the cursor and creates the deliveries of the
events between, in one transaction; so no event is lost or created twice, whichever replica reads
and whenever it dies. A webhook with many pending deliveries does not read on: history keeps the
rest, so a dead endpoint costs a bounded number of rows.
"""

from dataclasses import dataclass

from botpool.domain.webhook_events import SOURCES, event_id, payload_of
from botpool.engine.maintenance.restored_history import renumber_restored_history
from botpool.store import webhooks as statements
from botpool.store.database import Database, Transaction

MAX_PENDING = 5_000
"""A webhook with so many pending deliveries reads no further history."""
BATCH = 500
"""How many rows of history a webhook reads at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Reads history for webhooks."""

    database: Database
    batch: int = BATCH
    max_pending: int = MAX_PENDING

    async def find_work(self) -> list[statements.WebhookWork]:
        """Return the webhooks with new history or due deliveries."""
        return await statements.find_webhook_work(self.database, max_pending=self.max_pending)

    async def read(self, webhook_id: int) -> bool:
        """Create the deliveries of a webhook's next events; return whether history remains."""

        async def work(transaction: Transaction) -> bool:
            locked = statements.lock_webhook_cursor.statement(webhook_id=webhook_id)
            await transaction.run([locked])
            return locked.result is not None and await self._read(transaction, locked.result)

        return await self.database.transact(work)

    async def restore_cursors(self) -> None:
        """Correct cursors after a restore to another server, whose transactions have other ids."""
        await renumber_restored_history(self.database)
        await statements.restore_webhook_cursors(self.database)

    async def _read(self, transaction: Transaction, webhook: statements.WebhookCursor) -> bool:
        found = statements.read_webhook_events.statement(
            cursor_xid=webhook.cursor_xid,
            cursor_id=webhook.cursor_id,
            limit=self.batch,
            kinds=[source.kind for source in SOURCES],
            states=[source.to_state for source in SOURCES],
            types=[source.type.value for source in SOURCES],
            events=webhook.events,
            tenant_id=webhook.tenant_id,
        )
        await transaction.run([found])
        position = found.result[0]
        events = [row.event for row in found.result if row.event is not None]
        moved = statements.move_webhook_cursor.statement(
            webhook_id=webhook.id,
            cursor_xid=position.cursor_xid,
            cursor_id=position.cursor_id,
            newest_id=position.newest_id,
        )
        created = statements.insert_webhook_deliveries.statement(
            webhook_id=webhook.id,
            event_ids=[event_id(event.history_id) for event in events],
            history_ids=[event.history_id for event in events],
            bot_ids=[event.bot_id for event in events],
            types=[event.type.value for event in events],
            payloads=[payload_of(event) for event in events],
        )
        await transaction.run([created, moved] if events else [moved])
        # A full batch ends at a row of history, another one at the horizon, before any row.
        return position.cursor_id != 0
