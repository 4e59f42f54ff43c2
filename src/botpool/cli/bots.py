"""`botpool bot`: send bots into meetings, see them, end them."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botpool.cli import output
from botpool.cli.bot_data import read_bot_data
from botpool.cli.connection import JsonOption, connected
from botpool.cli.errors import RequestNotValid, UsedWrongly
from botpool.domain.states import BotStatus

if TYPE_CHECKING:
    from botpool.cli.client import Client

BotArgument = Annotated[int, typer.Argument(metavar="BOT", min=1, help="The bot's number.")]

_NAMES_HERE = {
    "meetingUrl": "MEETING_URL",
    "botDisplayName": "--name",
    "platform": "--platform",
    "queueTimeoutMs": "--queue-timeout-ms",
    "priority": "--priority",
    "botData": "--data",
    "idempotency-key": "--idempotency-key",
}
"""What the API calls a field, as the user of this command wrote it."""


@connected
def create(
    client: "Client",
    meeting_url: Annotated[str, typer.Argument(metavar="MEETING_URL", help="The meeting's link.")],
    name: Annotated[
        str | None, typer.Option(help="The name that the meeting sees. Default: Botpool")
    ] = None,
    platform: Annotated[
        str | None, typer.Option(help="The pool to use. Default: read from the link")
    ] = None,
    queue_timeout_ms: Annotated[
        int | None,
        typer.Option(
            metavar="MS", help="How long to wait for a slot; 0: not at all. Default: 300000"
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Lower goes first. Default: 100")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE", help="A JSON object for the bot: itself, @file, or @- for stdin."
        ),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With the same text again, no second bot is made."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the bot to its end; exit 1 unless it is DONE.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a bot into a meeting.

    \b
    botpool bot create https://meet.google.com/abc-defg-hij --name Scribe
    botpool bot create https://meet.google.com/abc-defg-hij --wait \\
        --data '{"staySeconds": 3}'
    """
    wanted: dict[str, Any] = {
        "meetingUrl": meeting_url,
        "botDisplayName": name,
        "platform": platform,
        "queueTimeoutMs": queue_timeout_ms,
        "priority": priority,
        "botData": read_bot_data(data) if data is not None else None,
    }
    if idempotency_key is not None and not all("!" <= each <= "~" for each in idempotency_key):
        raise UsedWrongly("--idempotency-key", "may have visible ASCII characters only")
    try:
        answer = client.create_bot(
            {field: value for field, value in wanted.items() if value is not None}, idempotency_key
        )
    except RequestNotValid as error:
        raise error.in_words_of(_NAMES_HERE) from None
    if wait:
        from botpool.cli import following

        answer = following.to_its_end(client, answer)
    if as_json:
        output.write_json(answer.content)
    else:
        from botpool.cli import details

        output.show(details.bot_line(answer.body))
    if wait and answer.body["bot"]["status"] != BotStatus.DONE:
        raise typer.Exit(1)


@connected
def list_(
    client: "Client",
    status: Annotated[
        BotStatus | None, typer.Option(case_sensitive=False, help="Only bots in this status.")
    ] = None,
    platform: Annotated[str | None, typer.Option(help="Only bots of this pool.")] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only bots with this in link, name or correlation id."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, metavar="N", help="How many.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Go on where the last list ended.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List bots, newest first.

    \b
    botpool bot list --status FAILED
    botpool bot list --search abc-defg-hij
    botpool bot list --json | jq '.bots[].id'
    """
    answer = client.bots(
        status=status, platform=platform, search=search, limit=limit, cursor=cursor
    )
    if as_json:
        output.write_json(answer.content)
        return
    from botpool.cli import tables

    more = answer.body["nextCursor"]
    if answer.body["bots"]:
        output.show(tables.bots(answer.body["bots"], answer.at))
        if more:
            output.show(f"Older ones: --cursor {more}")
    elif more:
        output.show(f"No bot so far is like that. Search on: --cursor {more}")
    elif status or platform or search or cursor:
        output.show("No bot is like that.")
    else:
        output.show("No bots. Send one with 'botpool bot create <meeting link>'.")


@connected
def show(client: "Client", bot: BotArgument, as_json: JsonOption = False) -> None:
    """Show all about a bot, with its place in the queue while it waits.

    \b
    botpool bot show 7
    """
    answer = client.bot(bot)
    if as_json:
        output.write_json(answer.content)
    else:
        from botpool.cli import details

        output.show(details.bot(answer.body, answer.at))


@connected
def stop(client: "Client", bot: BotArgument, as_json: JsonOption = False) -> None:
    """End a bot.

    It is cancelled while it waits or deploys, and asked to leave once it runs.

    \b
    botpool bot stop 7
    """
    answer = client.stop_bot(bot)
    if as_json:
        output.write_json(answer.content)
    else:
        from botpool.cli import details

        line = details.bot_line(answer.body)
        output.show(line.append(" (it had ended already)") if answer.status == 200 else line)


@connected
def events(client: "Client", bot: BotArgument, as_json: JsonOption = False) -> None:
    """Show what happened to a bot, oldest first.

    \b
    botpool bot events 7
    """
    answer = client.bot_events(bot)
    if as_json:
        output.write_json(answer.content)
    else:
        from botpool.cli import tables

        output.show(tables.bot_history(answer.body["events"]))


@connected
def logs(
    client: "Client",
    bot: BotArgument,
    tail: Annotated[
        int | None, typer.Option(min=0, max=100_000, metavar="N", help="Only the last N lines.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the bot's container ends.")
    ] = False,
) -> None:
    """Print the output of a bot's container.

    \b
    botpool bot logs 7 --tail 20
    botpool bot logs 7 --follow
    """
    with client.bot_logs(bot, tail=tail, follow=follow) as chunks:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
