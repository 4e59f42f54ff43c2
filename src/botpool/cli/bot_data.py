"""`botpool bot artifacts` and `botpool bot command`: the files of a bot, and commands to it."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli.bots import BotArgument, read_json_object
from botpool.cli.errors import UsageError
from botpool.cli.server_command import with_client_and_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client


@with_client_and_json
def artifacts(client: "Client", bot: BotArgument) -> "RenderableType":
    """List the files that a bot made, such as recordings.

    The bot's own storage has the files; Botpool knows their addresses or keys.

    \b
    botpool bot artifacts 7
    botpool bot artifacts 7 --json | jq -r '.artifacts[].location'
    """
    from botpool.cli import tables

    found = client.artifacts(bot)
    return tables.artifacts(found) if found else f"Bot {bot} has listed no files."


@with_client_and_json
def command(
    client: "Client",
    bot: BotArgument,
    kind: Annotated[str, typer.Argument(help="What the bot shall do, such as chat.")],
    text: Annotated[
        str | None, typer.Option(help="Short for --data with a 'text', such as a chat message.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE", help="A JSON object; @FILE reads it, @- from stdin."),
    ] = None,
) -> "RenderableType":
    """Send a command to a bot. The bot's next heartbeat receives it.

    What a command does is up to the bot; Meeboter's bots know chat.

    \b
    botpool bot command 7 chat --text "The recording has started."
    """
    from botpool.client import NotValid

    if text is not None and data is not None:
        raise UsageError("--text and --data: give one of them")
    sent = {"text": text} if text is not None else read_json_object(data or "{}")
    try:
        found = client.command(bot, kind, sent)
    except NotValid as error:
        problems = [f"{name}: {problem}" for name, problem in error.fields.items()]
        raise UsageError("; ".join(problems) or error.detail) from error
    return f"Command {found.id} ({found.kind}) waits for the next heartbeat of bot {bot}."
