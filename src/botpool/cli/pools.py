"""`botpool pool` and `botpool queue`: how the pools stand, and who waits for them."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.connection import JsonOption, connected

if TYPE_CHECKING:
    from botpool.cli.answers import Answer
    from botpool.cli.client import Client
    from botpool.cli.shapes import PoolAnswer

PoolArgument = Annotated[
    str, typer.Argument(metavar="PLATFORM", help="The pool's platform: google-meet.")
]


@connected
def list_(client: "Client", as_json: JsonOption = False) -> None:
    """List pools: slots, queue, share of warm starts, time to running (P50, P95).

    \b
    botpool pool list
    """
    answer = client.pools()
    if as_json:
        output.write_json(answer.content)
    else:
        from botpool.cli import tables

        output.show(tables.pools(answer.body["pools"]))


@connected
def show(client: "Client", platform: PoolArgument, as_json: JsonOption = False) -> None:
    """Show all about a pool.

    \b
    botpool pool show google-meet
    """
    answer = client.pool(platform)
    if as_json:
        output.write_json(answer.content)
    else:
        from botpool.cli import details

        output.show(details.pool(answer.body["pool"]))


@connected
def drain(
    client: "Client",
    platform: PoolArgument,
    wait: Annotated[
        bool, typer.Option("--wait", help="Go on until the last of its bots has left.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Cordon all slots of a pool and admit nobody new. Bots that run stay; the queue waits.

    \b
    botpool pool drain google-meet
    botpool pool drain google-meet --wait && systemctl stop botpool
    """
    answer = client.change_pool(platform, "drain")
    if wait:
        from botpool.cli import draining

        answer = draining.until_empty(client, answer)
    news = "is drained, and no bot is left in it" if wait else "is drained: it admits no new bots"
    _tell(answer, news, as_json)


@connected
def undrain(client: "Client", platform: PoolArgument, as_json: JsonOption = False) -> None:
    """Open a drained pool again.

    \b
    botpool pool undrain google-meet
    """
    _tell(client.change_pool(platform, "undrain"), "is open again", as_json)


@connected
def queue(
    client: "Client",
    platform: Annotated[str | None, typer.Option(help="Only the queue of this pool.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show who waits for a slot, in the order of service.

    \b
    botpool queue --platform google-meet
    """
    answer = client.queue(platform)
    if as_json:
        output.write_json(answer.content)
    elif answer.body["queue"]:
        from botpool.cli import tables

        output.show(tables.queue(answer.body["queue"], answer.at))
    else:
        output.show("Nobody waits.")


def _tell(answer: "Answer[PoolAnswer]", news: str, as_json: bool) -> None:
    if as_json:
        output.write_json(answer.content)
    else:
        output.show(f"Pool {answer.body['pool']['platform']} {news}.")


@connected
def recover(client: "Client", as_json: JsonOption = False) -> None:
    """Run the recovery pass now: what does not move is looked into, and put right.

    \b
    botpool recover
    """
    answer = client.recover()
    if as_json:
        output.write_json(answer.content)
        return
    found = answer.body
    output.show(
        f"Recovered {found['recovered']}, failed {found['failed']}, deleted {found['deleted']}, "
        f"skipped {found['skipped']}."
    )
