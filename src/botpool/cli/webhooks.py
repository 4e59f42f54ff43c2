"""`botpool webhook`: addresses that get events, and their deliveries."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.errors import CommandFailed, UsageError, print_notice
from botpool.cli.options import CursorOption, LimitOption
from botpool.cli.server_command import with_client_and_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client, Webhook

WebhookArgument = Annotated[
    int, typer.Argument(metavar="WEBHOOK", min=1, help="The webhook's id, as 'list' shows it.")
]
_DAY_S = 86_400


def _instant(text: str) -> datetime:
    """Read a time with or without a time zone; without one it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time such as 2026-01-05T10:00:00Z or 2026-01-05"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


@with_client_and_json
def create(
    client: "Client",
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The address that gets the events.")
    ],
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Only this type of event; repeatable. Default: all"),
    ] = None,
    description: Annotated[str, typer.Option(help="What the webhook is for.")] = "",
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only events of this tenant. Default: the key's, or all"),
    ] = None,
) -> "RenderableType":
    """Create a webhook and print the secret that verifies its requests, once.

    \b
    botpool webhook create https://example.org/hooks/botpool
    botpool webhook create https://example.org/ended --event bot.done --event bot.failed
    """
    made = client.create_webhook(
        address, events=event or None, description=description, tenant=tenant
    )
    return _with_secret(made, f"Webhook {made.id} is created.")


@with_client_and_json
def list_(client: "Client") -> "RenderableType":
    """List webhooks with their states.

    \b
    botpool webhook list
    """
    from botpool.cli import tables

    found = client.webhooks()
    if not found:
        return "There is no webhook. Create one with 'botpool webhook create ADDRESS'."
    return tables.webhooks(found, client.response.server_time)


@with_client_and_json
def test(
    client: "Client",
    webhook: WebhookArgument,
    event: Annotated[
        str, typer.Option(metavar="TYPE", help="The type whose example is sent.")
    ] = "bot.done",
) -> "RenderableType":
    """Send the example of an event now, and show the answer.

    \b
    botpool webhook test 1
    botpool webhook test 1 --event bot.failed
    """
    sent = client.test_webhook(webhook, event=event)
    if sent.status != "delivered":
        raise CommandFailed(f"Webhook {webhook} did not take the test: {sent.problem}.")
    status = sent.response and sent.response["status"]
    return f"Webhook {webhook} answered {status} to {sent.type} after {sent.duration_ms} ms."


@with_client_and_json
def deliveries(
    client: "Client",
    webhook: WebhookArgument,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help="Only pending, delivered or failed ones."),
    ] = None,
    limit: LimitOption = 20,
    cursor: CursorOption = None,
) -> "RenderableType":
    """List the deliveries of a webhook, newest first; --json also has requests and answers.

    \b
    botpool webhook deliveries 1 --status failed
    botpool webhook deliveries 1 --json | jq '.deliveries[0].request.body'
    """
    from botpool.cli import tables

    page = client.deliveries_page(webhook, status=status, limit=limit, cursor=cursor)
    if not page.items:
        return "No more deliveries." if cursor else f"Webhook {webhook} has no such delivery."
    table = tables.deliveries(page.items, client.response.server_time)
    return output.with_next_page(table, page.next_cursor)


@with_client_and_json
def replay(
    client: "Client",
    webhook: WebhookArgument,
    event_id: Annotated[
        str | None, typer.Option("--event", metavar="ID", help="Only this event: evt_4711.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="All events since this time.")
    ] = None,
) -> "RenderableType":
    """Deliver events again: all that failed, one, or all since a time. Enables the webhook.

    Events keep their ids, so that a receiver recognises those that it has.

    \b
    botpool webhook replay 1
    botpool webhook replay 1 --since 2026-01-05T10:00:00Z
    """
    if event_id is not None and since is not None:
        raise UsageError("--event and --since: give one of them")
    client.replay_webhook(
        webhook, event_id=event_id, since=None if since is None else _instant(since)
    )
    chosen = "the failed events"
    if event_id is not None:
        chosen = f"event {event_id}"
    elif since is not None:
        chosen = f"all events since {since}"
    return f"Webhook {webhook} is enabled and gets {chosen} again."


@with_client_and_json
def rotate(
    client: "Client",
    webhook: WebhookArgument,
    overlap: Annotated[
        int,
        typer.Option(metavar="S", min=0, help="Seconds in which the former secret signs, too."),
    ] = _DAY_S,
) -> "RenderableType":
    """Give a webhook a new secret. Until the overlap ends, requests carry both signatures.

    \b
    botpool webhook rotate 1
    """
    made = client.rotate_webhook(webhook, overlap_ms=overlap * 1000)
    return _with_secret(made, f"Webhook {webhook} has a new secret.")


@with_client_and_json
def delete(client: "Client", webhook: WebhookArgument) -> "RenderableType":
    """Delete a webhook and its deliveries.

    \b
    botpool webhook delete 1
    """
    client.delete_webhook(webhook)
    return f"Webhook {webhook} is deleted."


def _with_secret(webhook: "Webhook", sentence: str) -> "RenderableType":
    """Return the secret alone, so that a shell can keep it in a variable."""
    print_notice(f"{sentence} Its secret is shown only now:")
    return webhook.secret or ""
