"""`botpool pool`, `botpool queue` and `botpool recover`."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.options import CursorOption, LimitOption
from botpool.cli.server_command import with_client_and_json
from botpool.domain.states import SlotStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client

PoolArgument = Annotated[
    str, typer.Argument(metavar="PLATFORM", help="The pool's name, such as google-meet.")
]


@with_client_and_json
def list_(client: "Client") -> "RenderableType":
    """List pools with their slots, queues and times.

    WARM is the share of warm starts; P50 and P95 are times to running.

    \b
    botpool pool list
    """
    from botpool.cli import tables

    return tables.pools(client.pools())


@with_client_and_json
def show(client: "Client", platform: PoolArgument) -> "RenderableType":
    """Show a pool.

    \b
    botpool pool show google-meet
    """
    from botpool.cli import details

    unconfirmed = []
    promoted = None
    found = client.pool(platform)
    if found.configured_image is not None:
        ended = (each for each in client.rollouts(platform) if each.state == "promoted")
        promoted = next(ended, None)
    if found.unconfirmed_stops:
        releasing = client.slots(platform=platform, status=SlotStatus.RELEASING)
        unconfirmed = [slot for slot in releasing if slot.unconfirmed_reason]
    # The pool is the last call, so that --json prints the pool.
    return details.pool(client.pool(platform), unconfirmed, promoted)


@with_client_and_json
def drain(
    client: "Client",
    platform: PoolArgument,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the pool's last bot has ended.")
    ] = False,
) -> str:
    """Cordon all slots of a pool and admit no new bots. Running bots go on; queued bots wait.

    \b
    botpool pool drain google-meet
    botpool pool drain google-meet --wait && systemctl stop botpool
    """
    pool = client.drain_pool(platform)
    if not wait:
        return f"Pool {platform} is drained: it admits no new bots."
    from botpool.cli.waiting import wait_until_drained

    wait_until_drained(client, pool)
    return f"Pool {platform} is drained, and none of its slots has a bot."


@with_client_and_json
def undrain(client: "Client", platform: PoolArgument) -> str:
    """Let a drained pool admit bots again.

    \b
    botpool pool undrain google-meet
    """
    client.undrain_pool(platform)
    return f"Pool {platform} admits bots again."


@with_client_and_json
def queue(
    client: "Client",
    platform: Annotated[str | None, typer.Option(help="Only the queue of this pool.")] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only bots of this tenant.")
    ] = None,
    limit: LimitOption = 500,
    cursor: CursorOption = None,
) -> "RenderableType":
    """List the bots that wait for a slot, in order of service.

    \b
    botpool queue --platform google-meet
    """
    from botpool.cli import tables

    page = client.queue_page(platform=platform, tenant=tenant, limit=limit, cursor=cursor)
    if not page.items:
        return "No more bots wait." if cursor else "The queue is empty."
    table = tables.queue(page.items, client.response.server_time)
    return output.with_next_page(table, page.next_cursor)


@with_client_and_json
def recover(client: "Client") -> str:
    """Check all slots for problems now, and repair them.

    \b
    botpool recover
    """
    result = client.recover()
    return (
        f"Recovered {result.recovered}, requeued {result.requeued}, failed {result.failed}, "
        f"deleted {result.deleted}, skipped {result.skipped}."
    )
