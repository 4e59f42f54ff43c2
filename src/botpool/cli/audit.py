"""`botpool audit`: the actions of keys and commands."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.options import CursorOption, LimitOption
from botpool.cli.server_command import with_client_and_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client


@with_client_and_json
def audit(
    client: "Client",
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only actions of this key, or of 'cli'.")
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only this action, such as key.create.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Only this target, such as 'slot 3'.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only actions of keys of this tenant.")
    ] = None,
    limit: LimitOption = 100,
    cursor: CursorOption = None,
) -> "RenderableType":
    """List the actions of keys and commands, newest first.

    \b
    botpool audit --actor ops --limit 20
    botpool audit --action key.create --json
    """
    from botpool.cli import tables

    page = client.audit_page(
        actor=actor, action=action, target=target, tenant=tenant, limit=limit, cursor=cursor
    )
    if not page.items:
        return "No more actions." if cursor else _nothing_found(actor, action, target, tenant)
    table = tables.audit(page.items, client.response.server_time)
    return output.with_next_page(table, page.next_cursor)


def _nothing_found(*values: str | None) -> str:
    """Name the filters that match nothing, which may be misspelt."""
    names = ("--actor", "--action", "--target", "--tenant")
    given = [f"{name} {value!r}" for name, value in zip(names, values, strict=True) if value]
    if not given:
        return "No action is recorded."
    return f"No recorded action matches {' and '.join(given)}. 'botpool audit' lists all actions."
