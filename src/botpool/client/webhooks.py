"""The calls for webhooks."""

from collections.abc import AsyncGenerator, Collection, Mapping
from datetime import datetime
from typing import Any

from botpool.client.calls import Calls, moment, without_none
from botpool.client.records import Delivery, Page, Webhook
from botpool.client.synchronous import Synchronous, iterated, synchronous


class AsyncWebhookCalls(Calls):
    """Webhooks and their deliveries."""

    async def create_webhook(
        self,
        url: str,
        *,
        events: Collection[str] | None = None,
        description: str = "",
        tenant: str | None = None,
    ) -> Webhook:
        """Create a webhook. Keep its `secret`: no later call returns it."""
        body = {"url": url, "events": events and sorted(events), "description": description}
        body |= without_none(tenant=tenant)
        return await self._new_webhook("/v1/webhooks", body)

    async def webhooks(self) -> list[Webhook]:
        """The webhooks of the key's tenant; for operators all."""
        return await self._list(Webhook, "/v1/webhooks", "webhooks")

    async def webhook(self, webhook_id: int) -> Webhook:
        return await self._record(Webhook, "GET", f"/v1/webhooks/{webhook_id}", "webhook")

    async def delete_webhook(self, webhook_id: int) -> Webhook:
        """Delete a webhook and its deliveries."""
        path = f"/v1/webhooks/{webhook_id}"
        return await self._record(Webhook, "DELETE", path, "webhook", repeatable=False)

    async def rotate_webhook(self, webhook_id: int, *, overlap_ms: int = 86_400_000) -> Webhook:
        """Give a webhook a new secret. Until the overlap ends, both secrets sign."""
        path = f"/v1/webhooks/{webhook_id}/rotate"
        return await self._new_webhook(path, {"overlapMs": overlap_ms})

    async def test_webhook(self, webhook_id: int, *, event: str = "bot.done") -> Delivery:
        """Send the example of an event once, and return the answer of the endpoint."""
        path, body = f"/v1/webhooks/{webhook_id}/test", {"event": event}
        return await self._record(Delivery, "POST", path, "delivery", body=body, repeatable=False)

    def deliveries(
        self, webhook_id: int, *, status: str | None = None
    ) -> AsyncGenerator[Delivery, None]:
        """The deliveries of a webhook, newest first."""
        path = f"/v1/webhooks/{webhook_id}/deliveries"
        return self._pages(Delivery, path, "deliveries", status=status)

    async def deliveries_page(
        self,
        webhook_id: int,
        *,
        status: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """A page of the deliveries of a webhook, newest first."""
        path = f"/v1/webhooks/{webhook_id}/deliveries"
        return await self._page(
            Delivery, path, "deliveries", status=status, limit=limit, cursor=cursor
        )

    async def replay_webhook(
        self, webhook_id: int, *, event_id: str | None = None, since: datetime | None = None
    ) -> Webhook:
        """Deliver one event, all since a time, or all failed ones again; enables the webhook."""
        path = f"/v1/webhooks/{webhook_id}/replay"
        body = without_none(eventId=event_id, since=moment(since))
        return await self._record(Webhook, "POST", path, "webhook", body=body, repeatable=False)

    async def _new_webhook(self, path: str, body: Mapping[str, Any]) -> Webhook:
        response = await self._request("POST", path, body=body, repeatable=False)
        return response.parse_record(Webhook, "webhook", secret=response.body.get("secret"))


class WebhookCalls(Synchronous):
    """The synchronous calls for webhooks."""

    create_webhook = synchronous(AsyncWebhookCalls.create_webhook)
    webhooks = synchronous(AsyncWebhookCalls.webhooks)
    webhook = synchronous(AsyncWebhookCalls.webhook)
    delete_webhook = synchronous(AsyncWebhookCalls.delete_webhook)
    rotate_webhook = synchronous(AsyncWebhookCalls.rotate_webhook)
    test_webhook = synchronous(AsyncWebhookCalls.test_webhook)
    deliveries = iterated(AsyncWebhookCalls.deliveries)
    deliveries_page = synchronous(AsyncWebhookCalls.deliveries_page)
    replay_webhook = synchronous(AsyncWebhookCalls.replay_webhook)
