"""Commands of users and operators: create, list, test, rotate, replay and delete webhooks."""

import secrets as random_text
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from botpool.domain.callers import Caller
from botpool.domain.errors import NotFound, TooManyWebhooks, WebhookAddressRefused
from botpool.domain.ids import TenantId
from botpool.domain.pages import DeliveryPosition, Page
from botpool.domain.webhook_events import EventType, example_of, payload_of
from botpool.domain.webhook_signing import new_webhook_secret, seal, shown_secret, unseal
from botpool.domain.webhooks import (
    MAX_WEBHOOKS,
    Delivery,
    DeliveryStatus,
    Webhook,
    host_problem,
)
from botpool.engine.audit import audit_row
from botpool.engine.webhooks.dispatcher import Dispatcher
from botpool.engine.webhooks.sender import Sender
from botpool.store import webhooks as statements
from botpool.store.database import Database, Transaction

_ABOVE_ALL_IDS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookCommands:
    """Manages webhooks. A key of scope `user` reaches only those of its tenant."""

    database: Database
    sender: Sender
    dispatcher: Dispatcher
    keys: tuple[bytes, ...] = field(repr=False)
    """Keys that seal secrets: the first seals, and all unseal."""
    allow_private: bool

    async def create(
        self,
        caller: Caller,
        url: str,
        *,
        tenant_id: TenantId | None,
        events: Sequence[EventType] | None = None,
        description: str = "",
    ) -> tuple[Webhook, str]:
        """Create a webhook; return it with its secret, which only this answer shows."""
        if problem := host_problem(url, allow_private=self.allow_private):
            raise WebhookAddressRefused(problem)
        secret = new_webhook_secret()

        async def work(transaction: Transaction) -> Webhook:
            inserted = statements.insert_webhook.statement(
                tenant_id=tenant_id,
                url=url,
                description=description,
                events=None if events is None else sorted({each.value for each in events}),
                sealed_secret=seal(secret, self.keys[0]),
                created_by=caller.key_name,
                max_webhooks=MAX_WEBHOOKS,
            )
            await transaction.run([statements.lock_webhooks.statement(), inserted])
            if inserted.result is None:
                raise TooManyWebhooks(MAX_WEBHOOKS)
            webhook = await _webhook_in(transaction, inserted.result)
            await transaction.run(
                audit_row("webhook.create", _name(webhook), after=_shown(webhook))
            )
            return webhook

        return await self.database.transact(work), shown_secret(secret)

    async def list_visible(self, caller: Caller) -> list[Webhook]:
        return await statements.list_webhooks(self.database, tenant_id=caller.visible_tenant)

    async def find(self, caller: Caller, webhook_id: int) -> Webhook:
        """Return a webhook; one of another tenant does not exist for a user's key."""
        found = await statements.list_webhooks(
            self.database, webhook_id=webhook_id, tenant_id=caller.visible_tenant
        )
        if not found:
            raise NotFound("webhook", webhook_id)
        return found[0]

    async def rotate(
        self, caller: Caller, webhook_id: int, *, overlap_s: float
    ) -> tuple[Webhook, str]:
        """Give a webhook a new secret. Until the overlap ends, both secrets sign."""
        webhook = await self.find(caller, webhook_id)
        secret = new_webhook_secret()
        rotated = statements.rotate_webhook.statement(
            webhook_id=webhook_id, sealed_secret=seal(secret, self.keys[0]), overlap_s=overlap_s
        )
        after = {"overlapMs": round(overlap_s * 1000)}
        await self.database.commit(
            [rotated, *audit_row("webhook.rotate", _name(webhook), after=after)]
        )
        return await self.find(caller, webhook_id), shown_secret(secret)

    async def delete(self, caller: Caller, webhook_id: int) -> Webhook:
        """Delete a webhook and its deliveries. A request in progress may still arrive."""
        webhook = await self.find(caller, webhook_id)
        await self.database.commit(
            [
                statements.delete_webhook.statement(webhook_id=webhook_id),
                *audit_row("webhook.delete", _name(webhook), before=_shown(webhook)),
            ]
        )
        return webhook

    async def test(self, caller: Caller, webhook_id: int, event_type: EventType) -> Delivery:
        """Send the example of an event once, now, and record the answer."""
        await self.find(caller, webhook_id)
        signing = await statements.find_webhook_secrets(self.database, webhook_id=webhook_id)
        if signing is None:
            raise NotFound("webhook", webhook_id)
        event_id = f"test_{random_text.token_hex(4)}"
        payload = payload_of(example_of(event_type))
        answer = await self.sender.send(
            signing.url, event_id, payload, (signing.sealed_secret, signing.former_sealed_secret)
        )
        status = DeliveryStatus.DELIVERED if answer.is_success else DeliveryStatus.FAILED
        delivery_id = await statements.insert_test_delivery(
            self.database,
            webhook_id=webhook_id,
            event_id=event_id,
            event_type=event_type.value,
            payload=payload,
            status=status.value,
            response_status=answer.status,
            response_body=answer.body,
            problem=answer.problem,
            duration_ms=answer.duration_ms,
        )
        found = await statements.list_webhook_deliveries(
            self.database, webhook_id=webhook_id, before_id=delivery_id + 1, status=None, limit=1
        )
        return found[0]

    async def deliveries(
        self,
        caller: Caller,
        webhook_id: int,
        *,
        status: DeliveryStatus | None,
        before: DeliveryPosition | None,
        limit: int,
    ) -> Page[Delivery, DeliveryPosition]:
        """Return a page of deliveries, newest first."""
        await self.find(caller, webhook_id)
        found = await statements.list_webhook_deliveries(
            self.database,
            webhook_id=webhook_id,
            before_id=_ABOVE_ALL_IDS if before is None else before.delivery_id,
            status=None if status is None else status.value,
            limit=limit + 1,
        )
        page = found[:limit]
        position = DeliveryPosition(page[-1].id) if len(found) > limit else None
        return Page(items=page, next=position)

    async def replay(
        self,
        caller: Caller,
        webhook_id: int,
        *,
        event_id: str | None = None,
        since: datetime | None = None,
    ) -> Webhook:
        """Deliver events again and enable the webhook: one event, all since a time, or all failed.

        Events keep their ids. Pending events are attempted soon, too.
        """
        webhook = await self.find(caller, webhook_id)

        async def work(transaction: Transaction) -> None:
            await transaction.run([statements.lock_webhook.statement(webhook_id=webhook_id)])
            if event_id is not None:
                known = statements.find_webhook_event.statement(
                    webhook_id=webhook_id, event_id=event_id
                )
                await transaction.run([known])
                if known.result is None:
                    raise NotFound("delivery of the event", event_id)
            if since is not None:
                rewound = statements.rewind_webhook.statement(webhook_id=webhook_id, since=since)
                await transaction.run([rewound])
            else:
                replayed = statements.replay_webhook_events.statement(
                    webhook_id=webhook_id, event_id=event_id
                )
                await transaction.run([replayed])
            enabled = statements.enable_webhook.statement(
                webhook_id=webhook_id, lease_s=self.dispatcher.lease_s
            )
            after = {"eventId": event_id, "since": since}
            await transaction.run(
                [enabled, *audit_row("webhook.replay", _name(webhook), after=after)]
            )

        await self.database.transact(work)
        self.dispatcher.wake.set()
        return await self.find(caller, webhook_id)

    async def reseal(self) -> None:
        """Seal all secrets with the newest key, so that older installation secrets can go."""
        for each in await statements.list_sealed_secrets(self.database):
            sealed = [each.sealed_secret, each.former_sealed_secret]
            if all(text is None or unseal(text, self.keys[:1]) is not None for text in sealed):
                continue
            opened = [text and unseal(text, self.keys) for text in sealed]
            if opened[0] is None:
                continue  # `Sender` reports it with each attempt.
            await statements.reseal_webhook(
                self.database,
                webhook_id=each.id,
                sealed_secret=seal(opened[0], self.keys[0]),
                former_sealed_secret=opened[1] and seal(opened[1], self.keys[0]),
                known_secret=each.sealed_secret,
            )


async def _webhook_in(transaction: Transaction, webhook_id: int) -> Webhook:
    found = statements.list_webhooks.statement(webhook_id=webhook_id)
    await transaction.run([found])
    return found.result[0]


def _name(webhook: Webhook) -> str:
    return f"webhook {webhook.id}"


def _shown(webhook: Webhook) -> dict[str, object]:
    """Return what the audit log shows of a webhook."""
    return {
        "url": webhook.url,
        "events": webhook.events,
        "tenant": webhook.tenant,
        "description": webhook.description,
    }
