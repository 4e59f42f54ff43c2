"""The client's calls for webhooks."""

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from botpool.client.connection import Response
from botpool.client.records import Delivery, Page, Webhook

T = TypeVar("T")


class WebhookCalls:
    """Webhooks and their deliveries. `Client` inherits these calls."""

    def create_webhook(
        self,
        url: str,
        *,
        events: Collection[str] | None = None,
        description: str = "",
        tenant: str | None = None,
    ) -> Webhook:
        """Create a webhook. Keep its `secret`: no later call returns it."""
        body = {"url": url, "events": events and sorted(events), "description": description}
        body |= {} if tenant is None else {"tenant": tenant}
        return self._with_secret(self._post("/v1/webhooks", body))

    def webhooks(self) -> list[Webhook]:
        """The webhooks of the key's tenant; for operators all."""
        return self._list(Webhook, "/v1/webhooks", "webhooks")

    def webhook(self, webhook_id: int) -> Webhook:
        return self._request("GET", f"/v1/webhooks/{webhook_id}").parse_record(Webhook, "webhook")

    def delete_webhook(self, webhook_id: int) -> Webhook:
        """Delete a webhook and its deliveries."""
        response = self._request("DELETE", f"/v1/webhooks/{webhook_id}", repeatable=False)
        return response.parse_record(Webhook, "webhook")

    def rotate_webhook(self, webhook_id: int, *, overlap_ms: int = 86_400_000) -> Webhook:
        """Give a webhook a new secret. Until the overlap ends, both secrets sign."""
        path = f"/v1/webhooks/{webhook_id}/rotate"
        return self._with_secret(self._post(path, {"overlapMs": overlap_ms}))

    def test_webhook(self, webhook_id: int, *, event: str = "bot.done") -> Delivery:
        """Send the example of an event once, and return the answer of the endpoint."""
        response = self._post(f"/v1/webhooks/{webhook_id}/test", {"event": event})
        return response.parse_record(Delivery, "delivery")

    def deliveries_page(
        self,
        webhook_id: int,
        *,
        status: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """A page of the deliveries of a webhook, newest first."""
        path = f"/v1/webhooks/{webhook_id}/deliveries"
        return self._page(Delivery, path, "deliveries", status=status, limit=limit, cursor=cursor)

    def replay_webhook(
        self, webhook_id: int, *, event_id: str | None = None, since: datetime | None = None
    ) -> Webhook:
        """Deliver one event, all since a time, or all failed ones again; enables the webhook."""
        body: dict[str, Any] = {} if event_id is None else {"eventId": event_id}
        body |= {} if since is None else {"since": since.isoformat()}
        response = self._post(f"/v1/webhooks/{webhook_id}/replay", body)
        return response.parse_record(Webhook, "webhook")

    def _with_secret(self, response: Response) -> Webhook:
        secret = response.body.get("secret")
        return response.parse_record(Webhook, "webhook", secret=secret)

    def _post(self, path: str, body: dict[str, Any]) -> Response:
        return self._request(
            "POST",
            path,
            content=json.dumps(body).encode("ascii"),
            headers={"Content-Type": "application/json"},
            repeatable=False,
        )

    def _request(self, method: str, path: str, **request: Any) -> Response:
        raise NotImplementedError

    def _list(self, kind: type[T], path: str, part: str, **params: Any) -> list[T]:
        raise NotImplementedError

    def _page(self, kind: type[T], path: str, part: str, **params: Any) -> Page[T]:
        raise NotImplementedError
