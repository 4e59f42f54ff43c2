"""`botpool rollout`: give a pool a new image, a share of its bots first."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli.durations import BakeOption
from botpool.cli.pools import PoolArgument
from botpool.cli.server_command import with_client_and_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client


def _share(text: str) -> float:
    """Read a share such as `5%` or `0.05`."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 0.5:
        raise typer.BadParameter(f"{text!r} is not a share up to 50%, such as 5% or 0.05")
    return share


@with_client_and_json
def start(
    client: "Client",
    platform: PoolArgument,
    image: Annotated[
        str, typer.Option(help="The new image, with a tag of its own or with its digest.")
    ],
    canary: Annotated[
        float,
        typer.Option(
            parser=_share, metavar="SHARE", help="The share of assignments that it gets first."
        ),
    ] = "5%",  # type: ignore[assignment] # typer parses it
    bake: BakeOption = "30m",  # type: ignore[assignment] # typer parses it
    tolerance: Annotated[
        float,
        typer.Option(
            parser=_share,
            metavar="POINTS",
            help="By how much a share of failures may rise; smaller needs more bots.",
        ),
    ] = "10%",  # type: ignore[assignment] # typer parses it
    cpus: Annotated[
        float | None, typer.Option(help="Another CPU limit. Default: the pool's")
    ] = None,
    memory_mb: Annotated[
        int | None, typer.Option(help="Another memory limit. Default: the pool's")
    ] = None,
) -> str:
    """Start the rollout of a new image. Botpool promotes it, or rolls it back, by itself.

    \b
    botpool rollout start google-meet --image ghcr.io/acme/bot:1.5 --canary 5% --bake 30m
    """
    started = client.start_rollout(
        platform,
        image,
        canary_share=canary,
        bake_ms=round(bake * 1000),
        tolerance=tolerance,
        cpus=cpus,
        memory_mb=memory_mb,
    )
    return (
        f"Rollout {started.id} of {started.new.image} in pool {platform} is started. "
        f"Follow it with 'botpool rollout status {platform}'."
    )


@with_client_and_json
def status(client: "Client", platform: PoolArgument) -> "RenderableType":
    """Show the last rollout of a pool, with both revisions side by side.

    \b
    botpool rollout status google-meet
    """
    from botpool.cli import rollout_details

    found = client.rollouts(platform)
    if not found:
        return (
            f"Pool {platform} had no rollout. Start one with "
            f"'botpool rollout start {platform} --image IMAGE'."
        )
    return rollout_details.rollout(found[0], client.response.server_time)


@with_client_and_json
def promote(client: "Client", platform: PoolArgument) -> str:
    """Give all assignments the new image now, without regard to the comparison.

    \b
    botpool rollout promote google-meet
    """
    promoted = client.promote_rollout(platform)
    return f"Pool {platform} has {promoted.new.image}. Set it in the settings file too."


@with_client_and_json
def rollback(client: "Client", platform: PoolArgument) -> str:
    """Keep the old image, or return to it after the last promotion.

    \b
    botpool rollout rollback google-meet
    """
    ended = client.roll_back_rollout(platform)
    return f"Pool {platform} has {ended.old.image}."
