"""`botpool slot`: the places where bots run, for operators."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.connection import JsonOption, connected
from botpool.domain.errors import NotFound
from botpool.domain.states import SlotStatus

if TYPE_CHECKING:
    from botpool.cli.answers import Answer
    from botpool.cli.client import Client
    from botpool.cli.shapes import SlotAnswer

SlotArgument = Annotated[
    str, typer.Argument(metavar="SLOT", help="The slot's id, or its name: pool-zoom-001.")
]

_HISTORY_SHOWN = 8


@connected
def list_(
    client: "Client",
    platform: Annotated[str | None, typer.Option(help="Only slots of this pool.")] = None,
    status: Annotated[
        SlotStatus | None, typer.Option(case_sensitive=False, help="Only slots in this status.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List slots, by pool and number.

    \b
    botpool slot list --platform google-meet
    botpool slot list --status error --json
    """
    answer = client.slots(platform=platform, status=status)
    if as_json:
        output.write_json(answer.content)
    elif answer.body["slots"]:
        from botpool.cli import tables

        output.show(tables.slots(answer.body["slots"], answer.at))
    else:
        output.show("No slots. They are made when bots come.")


@connected
def show(client: "Client", slot: SlotArgument, as_json: JsonOption = False) -> None:
    """Show all about a slot, and what happened to it last.

    \b
    botpool slot show 3
    botpool slot show pool-google-meet-003
    """
    answer = client.slot(_id_of(client, slot))
    if as_json:
        output.write_json(answer.content)
        return
    from botpool.cli import details, tables

    found = answer.body["slot"]
    history = client.slot_history(found["id"]).body["events"][:_HISTORY_SHOWN]
    output.show(details.slot(found, answer.at), "", tables.slot_history(history[::-1]))


@connected
def cordon(client: "Client", slot: SlotArgument, as_json: JsonOption = False) -> None:
    """Let a slot finish its bot and take no other.

    \b
    botpool slot cordon pool-google-meet-003
    """
    answer = client.change_slot(_id_of(client, slot), "cordon")
    _tell(answer, "is cordoned: it takes no new bots", as_json)


@connected
def uncordon(client: "Client", slot: SlotArgument, as_json: JsonOption = False) -> None:
    """Let a slot take bots again.

    \b
    botpool slot uncordon pool-google-meet-003
    """
    answer = client.change_slot(_id_of(client, slot), "uncordon")
    _tell(answer, "takes bots again", as_json)


@connected
def release(client: "Client", slot: SlotArgument, as_json: JsonOption = False) -> None:
    """Take a slot away from its bot. The bot fails, with code `operator`.

    \b
    botpool slot release pool-google-meet-003
    """
    answer = client.change_slot(_id_of(client, slot), "release")
    _tell(answer, "is released: its bot, if it had one, has failed", as_json)


@connected
def recover(client: "Client", slot: SlotArgument, as_json: JsonOption = False) -> None:
    """Reset a slot now. A bot that is still deploying is tried again; one that runs fails.

    \b
    botpool slot recover pool-google-meet-003
    """
    answer = client.change_slot(_id_of(client, slot), "recover")
    _tell(answer, "is being reset", as_json)


@connected
def delete(
    client: "Client",
    slot: SlotArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Also with a live bot, which then fails.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete a slot and its container. The pool makes a new one when it must.

    \b
    botpool slot delete pool-google-meet-003
    botpool slot delete pool-google-meet-003 --force
    """
    answer = client.delete_slot(_id_of(client, slot), force=force)
    _tell(answer, "is being deleted", as_json)


def _tell(answer: "Answer[SlotAnswer]", news: str, as_json: bool) -> None:
    if as_json:
        output.write_json(answer.content)
    else:
        output.show(f"Slot {answer.body['slot']['name']} {news}.")


def _id_of(client: "Client", slot: str) -> int:
    """The API knows slots by their ids; people read their names."""
    if slot.isascii() and slot.isdigit():
        return int(slot)
    for each in client.slots().body["slots"]:
        if each["name"] == slot:
            return each["id"]
    raise NotFound("slot", slot)
