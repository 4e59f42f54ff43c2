"""`botpool slot`: show slots and act on them, for operators."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.options import CursorOption, LimitOption
from botpool.cli.server_command import with_client_and_json
from botpool.domain.states import SlotStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client, Slot

SlotArgument = Annotated[
    str, typer.Argument(metavar="SLOT", help="The slot's id, or its name: pool-zoom-001.")
]

_HISTORY_SHOWN = 8


@with_client_and_json
def list_(
    client: "Client",
    platform: Annotated[str | None, typer.Option(help="Only slots of this pool.")] = None,
    status: Annotated[
        SlotStatus | None, typer.Option(case_sensitive=False, help="Only slots in this status.")
    ] = None,
    container: Annotated[
        str | None, typer.Option(metavar="ID", help="Only the slot that has this container.")
    ] = None,
    bot: Annotated[
        int | None, typer.Option(metavar="BOT", min=1, help="Only the slot that has this bot.")
    ] = None,
    limit: LimitOption = 500,
    cursor: CursorOption = None,
) -> "RenderableType":
    """List slots, by pool and number.

    \b
    botpool slot list --platform google-meet
    botpool slot list --status error --json
    botpool slot list --bot 7
    """
    from botpool.cli import tables

    page = client.slots_page(
        platform=platform,
        status=status,
        container_id=container,
        bot_id=bot,
        limit=limit,
        cursor=cursor,
    )
    if page.items:
        table = tables.slots(page.items, client.response.server_time)
        return output.with_next_page(table, page.next_cursor)
    if platform or status or container or bot or cursor:
        return "No slot matches."
    return "No slots. Botpool creates slots when bots need them."


@with_client_and_json
def show(client: "Client", slot: SlotArgument) -> "RenderableType":
    """Show a slot and its latest history.

    \b
    botpool slot show 3
    botpool slot show pool-google-meet-003
    """
    from rich.console import Group

    from botpool.cli import details, tables

    slot_id = _id_of(client, slot)
    history = client.slot_history_page(slot_id, limit=_HISTORY_SHOWN).items
    # The slot is the last call, so that --json prints the slot.
    found = client.slot(slot_id)
    table = tables.slot_history(history[::-1])
    return Group(details.slot(found, client.response.server_time), "", table)


@with_client_and_json
def cordon(client: "Client", slot: SlotArgument) -> str:
    """Let a slot finish its bot and take no other.

    \b
    botpool slot cordon pool-google-meet-003
    """
    found = client.cordon_slot(_id_of(client, slot))
    return f"Slot {found.name} is cordoned: it takes no new bots."


@with_client_and_json
def uncordon(client: "Client", slot: SlotArgument) -> str:
    """Let a slot take bots again.

    \b
    botpool slot uncordon pool-google-meet-003
    """
    found = client.uncordon_slot(_id_of(client, slot))
    return f"Slot {found.name} takes bots again."


@with_client_and_json
def release(
    client: "Client",
    slot: SlotArgument,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Free a slot whose stop cannot be confirmed. Needs an admin's key."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> str:
    """Take a slot from its bot. The bot fails with code `operator`.

    With --force: free a slot that stays `releasing` because the node of its container is
    unreachable. Botpool cannot know whether that container still runs. If it does, the next bot
    runs beside it. Use it only if you know that the node is dead.

    \b
    botpool slot release pool-google-meet-003
    botpool slot release pool-google-meet-003 --force
    """
    slot_id = _id_of(client, slot)
    if not force:
        found = client.release_slot(slot_id)
        return f"Slot {found.name} is released. If it had a bot, the bot has failed."
    seen = client.slot(slot_id)
    if not yes:
        _confirm_force(seen)
    found = client.release_slot(slot_id, force=True, bot_id=seen.assigned_bot_id)
    return f"Slot {found.name} is free. Its former container may still run on its node."


@with_client_and_json
def recover(client: "Client", slot: SlotArgument) -> str:
    """Reset a slot now. A deploying bot is retried; a running bot fails.

    \b
    botpool slot recover pool-google-meet-003
    """
    found = client.recover_slot(_id_of(client, slot))
    return f"Slot {found.name} is being reset."


@with_client_and_json
def delete(
    client: "Client",
    slot: SlotArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Delete a slot with a live bot too; the bot fails.")
    ] = False,
) -> str:
    """Delete a slot and its container. The pool creates a new slot when it needs one.

    \b
    botpool slot delete pool-google-meet-003
    botpool slot delete pool-google-meet-003 --force
    """
    found = client.delete_slot(_id_of(client, slot), force=force)
    return f"Slot {found.name} is being deleted."


def _confirm_force(slot: "Slot") -> None:
    """Say what a forced release risks, and end the command unless the user agrees."""
    from botpool.cli.tables import unconfirmed

    why = unconfirmed(slot) if slot.unconfirmed_reason else "its stop is not confirmed yet"
    typer.echo(
        f"Slot {slot.name} ({slot.status}, bot {slot.assigned_bot_id}): {why}.\n"
        "Botpool cannot know whether the container still runs. If it does:\n"
        "  - it stays in its meeting until its agent reaches Botpool or its node returns;\n"
        "  - the slot's next bot runs beside it, on another node;\n"
        "  - a bot that did not get into its call yet starts again, and may join twice.\n"
        "Go on only if you know that the node is dead, for example because it was switched off.",
        err=True,
    )
    try:
        agreed = typer.confirm("Release the slot?", err=True)
    except typer.Abort:  # No terminal to ask on.
        agreed = False
    if not agreed:
        typer.echo("Nothing was released. To release without a question, add --yes.", err=True)
        raise typer.Exit(1)


def _id_of(client: "Client", slot: str) -> int:
    """The id of a slot that the user gave by id or by name."""
    from botpool.client import NotFound

    if slot.isascii() and slot.isdigit():
        return int(slot)
    for each in client.slots():
        if each.name == slot:
            return each.id
    raise NotFound(404, f"There is no slot {slot}.")
