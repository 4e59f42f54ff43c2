"""`botpool bot`: send bots into meetings, show them, stop them."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from botpool.cli import output
from botpool.cli.errors import UsageError
from botpool.cli.options import CursorOption, JsonOption, LimitOption
from botpool.cli.server_command import with_client, with_client_and_json
from botpool.domain.states import BotStatus

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client, NotValid

BotArgument = Annotated[int, typer.Argument(metavar="BOT", min=1, help="The bot's id.")]


def _time(text: str) -> datetime:
    """Read a time with an offset: a clock change makes a time without one ambiguous."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time, such as 2026-03-30T09:00:00+02:00"
        ) from None
    if at.tzinfo is None:
        raise typer.BadParameter(f"{text!r} needs an offset, such as {text}+02:00 or {text}Z")
    return at


JoinAtOption = Annotated[
    datetime | None,
    typer.Option(parser=_time, metavar="TIME", help="When the bot joins, with an offset."),
]

_OPTION_OF_FIELD = {
    "meetingUrl": "MEETING_URL",
    "botDisplayName": "--name",
    "platform": "--platform",
    "queueTimeoutMs": "--queue-timeout-ms",
    "priority": "--priority",
    "botData": "--data",
    "joinAt": "--join-at",
    "expectedDurationMs": "--expected-duration-ms",
    "idempotency-key": "--idempotency-key",
}


@with_client
def create(
    client: "Client",
    meeting_url: Annotated[str, typer.Argument(metavar="MEETING_URL", help="The meeting's link.")],
    name: Annotated[
        str | None, typer.Option(help="The bot's name in the meeting. Default: Botpool")
    ] = None,
    platform: Annotated[
        str | None, typer.Option(help="The pool. Default: derived from the link")
    ] = None,
    queue_timeout_ms: Annotated[
        int | None,
        typer.Option(
            metavar="MS", help="How long to wait for a slot; 0: do not queue. Default: 300000"
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Lower goes first. Default: 100")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE", help="A JSON object for the bot; @FILE reads it, @- from stdin."
        ),
    ] = None,
    join_at: JoinAtOption = None,
    expected_duration_ms: Annotated[
        int | None,
        typer.Option(metavar="MS", help="How long the call will last, with --join-at."),
    ] = None,
    require_reservation: Annotated[
        bool,
        typer.Option("--require-reservation", help="With --join-at: fail without a reserved slot."),
    ] = False,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The same key again returns the same bot."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the bot's end; exit 1 unless it is DONE.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a bot into a meeting.

    \b
    botpool bot create https://meet.google.com/abc-defg-hij --name Scribe
    botpool bot create https://meet.google.com/abc-defg-hij --wait \\
        --data '{"staySeconds": 3}'
    botpool bot create https://meet.google.com/abc-defg-hij \\
        --join-at 2026-03-30T09:00:00+02:00
    """
    from botpool.client import NotValid

    bot_data = read_json_object(data) if data is not None else None
    if idempotency_key is not None and not all("!" <= each <= "~" for each in idempotency_key):
        raise UsageError("--idempotency-key: must be visible ASCII characters")
    try:
        bot = client.create(
            meeting_url,
            display_name=name,
            platform=platform,
            queue_timeout_ms=queue_timeout_ms,
            priority=priority,
            bot_data=bot_data,
            join_at=join_at,
            expected_duration_ms=expected_duration_ms,
            require_reservation=require_reservation or None,
            idempotency_key=idempotency_key,
        )
    except NotValid as error:
        raise UsageError(_in_words_of_options(error)) from error
    if wait:
        from botpool.cli.waiting import wait_for_end

        bot = wait_for_end(client, bot)
    if as_json:
        output.write_json(client.response.content)
    else:
        from botpool.cli import details

        output.show(details.bot_line(bot))
    if wait and bot.status != BotStatus.DONE:
        raise typer.Exit(1)


def _in_words_of_options(error: "NotValid") -> str:
    """The problem of each field, under the name of its option."""
    problems = [
        f"{_OPTION_OF_FIELD.get(name, name)}: {text}" for name, text in error.fields.items()
    ]
    return "; ".join(problems) or error.detail


def read_json_object(data: str) -> dict[str, Any]:
    """Read the value of `--data`: a JSON object, in the argument, a file or standard input."""
    try:
        found = json.loads(_text_of(data), parse_constant=_refuse_constant)
    except OSError as error:
        raise UsageError(f"--data: {data[1:]} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--data: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("""--data: must be a JSON object, such as '{"staySeconds": 3}'""")
    return found


def _text_of(data: str) -> str:
    if data == "@-":
        return sys.stdin.read()
    return Path(data[1:]).read_text() if data.startswith("@") else data


def _refuse_constant(name: str) -> None:
    """Refuse NaN and the infinities, which Python accepts and JSON does not have."""
    raise ValueError(f"{name} is not a JSON value")


@with_client
def update(
    client: "Client",
    bot: BotArgument,
    join_at: JoinAtOption = None,
    priority: Annotated[int | None, typer.Option(metavar="N", help="Lower goes first.")] = None,
    name: Annotated[str | None, typer.Option(help="The bot's name in the meeting.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Change a bot before its start.

    \b
    botpool bot update 7 --join-at 2026-03-30T10:00:00+02:00
    botpool bot update 7 --priority 10 --name Scribe
    """
    from botpool.client import NotValid

    if join_at is None and priority is None and name is None:
        raise UsageError("name at least one of --join-at, --priority, --name")
    try:
        updated = client.update(bot, join_at=join_at, priority=priority, display_name=name)
    except NotValid as error:
        raise UsageError(_in_words_of_options(error)) from error
    if as_json:
        output.write_json(client.response.content)
    else:
        from botpool.cli import details

        output.show(details.bot_line(updated))


@with_client_and_json
def list_(
    client: "Client",
    status: Annotated[
        BotStatus | None, typer.Option(case_sensitive=False, help="Only bots in this status.")
    ] = None,
    platform: Annotated[str | None, typer.Option(help="Only bots of this pool.")] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only bots with TEXT in link, name or correlation id."),
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only bots that ran in this container, the last first."),
    ] = None,
    slot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only bots that ran in this slot, the last first."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only bots of this tenant.")
    ] = None,
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> "RenderableType":
    """List bots, newest first.

    \b
    botpool bot list --status FAILED
    botpool bot list --search abc-defg-hij
    botpool bot list --container qk0w8gcs4wgk0s4o
    botpool bot list --json | jq '.bots[].id'
    """
    from botpool.cli import tables

    page = client.bots_page(
        status=status,
        platform=platform,
        search=search,
        container_id=container,
        slot_name=slot,
        tenant=tenant,
        limit=limit,
        cursor=cursor,
    )
    more = page.next_cursor
    if page.items:
        table = tables.bots(page.items, client.response.server_time)
        return output.with_next_page(table, more)
    if more:
        return f"No match so far. Continue with --cursor {more}"
    if status or platform or search or container or slot or tenant or cursor:
        return "No bot matches."
    return "No bots. Send one with 'botpool bot create <meeting link>'."


@with_client_and_json
def show(client: "Client", bot: BotArgument) -> "RenderableType":
    """Show a bot, with its position while it is queued.

    \b
    botpool bot show 7
    """
    from botpool.cli import details

    found = client.get(bot)
    return details.bot(found, client.response.server_time)


@with_client_and_json
def stop(client: "Client", bot: BotArgument) -> "RenderableType":
    """Stop a bot.

    A bot that waits or deploys is cancelled; a running bot is asked to leave.

    \b
    botpool bot stop 7
    """
    from botpool.cli import details

    found = client.stop(bot)
    note = " (it had already ended)" if client.response.status == 200 else ""
    return details.bot_line(found).append(note)


@with_client_and_json
def events(
    client: "Client", bot: BotArgument, limit: LimitOption = 500, cursor: CursorOption = None
) -> "RenderableType":
    """Show a bot's history, oldest first.

    \b
    botpool bot events 7
    """
    from botpool.cli import tables

    page = client.events_page(bot, limit=limit, cursor=cursor)
    return output.with_next_page(tables.bot_history(page.items), page.next_cursor)


@with_client
def logs(
    client: "Client",
    bot: BotArgument,
    tail: Annotated[
        int | None, typer.Option(min=0, max=100_000, metavar="N", help="Only the last N lines.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the bot's container ends.")
    ] = False,
) -> None:
    """Print the output of a bot's container.

    \b
    botpool bot logs 7 --tail 20
    botpool bot logs 7 --follow
    """
    for part in client.logs(bot, tail=tail, follow=follow):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
