"""The MCP server: its tools call the HTTP API with the key of the caller.

The tools can do what the key can do: a key of scope `user` sees the bots of its tenant only. Tools
that end or refuse bots need a confirmation: the client asks its user where it can (elicitation),
else the caller repeats the name of the target in `confirm`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from botpool import __version__
from botpool.cli.mcp import reports
from botpool.client import AsyncClient, ClientError

_READ = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_DESTROY = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
_INSTRUCTIONS = (
    "Botpool runs bots in video meetings. Begin with list_problems or fleet_status; explain_bot "
    "says why a bot is where it is. stop_bot and drain_pool affect live meetings."
)
BotId = Annotated[int, Field(ge=1, description="The bot's id.")]
PoolName = Annotated[str, Field(description="The pool's name, such as google-meet.")]
Confirm = Annotated[
    str | None,
    Field(description="The name of the target again, if the client cannot ask its user."),
]


class Confirmation(BaseModel):
    """What the user answers."""

    confirmed: bool = Field(description="Whether to do it.")


def _ask(ctx: Context, target: str, confirm: str | None, effect: str) -> Any:
    """Take the confirmation from the arguments, or ask the user if the client can."""
    if confirm == target:
        return Confirmation(confirmed=True)
    if confirm is not None:
        raise ToolError(f"confirm is {confirm!r}, but the target is {target!r}. Nothing was done.")
    capabilities = ctx.client_capabilities
    if capabilities is not None and capabilities.elicitation is not None:
        return Elicit(f"{effect} Do it?", Confirmation)
    raise ToolError(f"{effect} To do it, call the tool again with confirm={target!r}.")


def _confirm_stop(ctx: Context, bot_id: int, confirm: str | None = None) -> Any:
    effect = f"Bot {bot_id} will leave its meeting, or will not join it."
    return _ask(ctx, f"bot {bot_id}", confirm, effect)


def _confirm_drain(ctx: Context, pool: str, confirm: str | None = None) -> Any:
    effect = f"Pool {pool} will refuse new bots and take none from its queue; its bots continue."
    return _ask(ctx, pool, confirm, effect)


def create_server(url: str, key: str | None) -> MCPServer:
    """Create the server. Without a key, each request has to carry its caller's key."""
    server = MCPServer(
        "botpool", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )

    @asynccontextmanager
    async def calling(ctx: Context) -> AsyncIterator[AsyncClient]:
        """A client with the caller's key; its errors become those of the tool."""
        try:
            async with AsyncClient(url, key or _key_of(ctx)) as botpool:
                yield botpool
        except (ClientError, ValueError) as error:
            raise ToolError(str(error)) from error

    @server.tool(annotations=_READ)
    async def explain_bot(bot_id: BotId, ctx: Context) -> dict[str, Any]:
        """Explain where a bot is, since when and why: its phases and its last events."""
        async with calling(ctx) as botpool:
            return await reports.explain_bot(botpool, bot_id)

    @server.tool(annotations=_READ)
    async def fleet_status(ctx: Context) -> dict[str, Any]:
        """Show all pools: slots by status, queue, waiting times, health. Needs scope operator."""
        async with calling(ctx) as botpool:
            return await reports.fleet_status(botpool)

    @server.tool(annotations=_READ)
    async def plan_capacity(
        pool: PoolName,
        ctx: Context,
        days: Annotated[float, Field(gt=0, le=90, description="Days to replay.")] = 7,
        slo: Annotated[float, Field(gt=0, le=1, description="Share of bots on time.")] = 0.999,
        within_s: Annotated[float, Field(gt=0, description="Seconds to a running bot.")] = 5,
    ) -> dict[str, Any]:
        """Replay a pool's recorded bots under other warm floors, and recommend settings."""
        async with calling(ctx) as botpool:
            plan = await reports.plan_capacity(botpool, pool, days=days, slo=slo, within_s=within_s)
            found: dict[str, Any] = reports.as_json(plan)
            return found

    @server.tool(annotations=_READ)
    async def list_problems(ctx: Context) -> dict[str, Any]:
        """List what needs attention: pools, slots, bots, webhooks. Needs scope operator."""
        async with calling(ctx) as botpool:
            return {"problems": await reports.list_problems(botpool)}

    @server.tool(annotations=_DESTROY)
    async def stop_bot(
        bot_id: BotId,
        ctx: Context,
        confirmation: Annotated[Confirmation, Resolve(_confirm_stop)],
        confirm: Confirm = None,
    ) -> dict[str, Any]:
        """Stop a bot: cancel it, or ask it to leave its meeting. `confirm` repeats 'bot ID'."""
        _check(confirmation)
        async with calling(ctx) as botpool:
            bot = await botpool.stop(bot_id)
            return {"bot": bot.id, "status": bot.status}

    @server.tool(annotations=_DESTROY)
    async def drain_pool(
        pool: PoolName,
        ctx: Context,
        confirmation: Annotated[Confirmation, Resolve(_confirm_drain)],
        confirm: Confirm = None,
    ) -> dict[str, Any]:
        """Drain a pool: it refuses new bots, and its bots continue. `confirm` repeats its name."""
        _check(confirmation)
        async with calling(ctx) as botpool:
            drained = await botpool.drain_pool(pool)
            return {"pool": drained.platform, "drained": drained.drained}

    return server


def _check(confirmation: Confirmation) -> None:
    if not confirmation.confirmed:
        raise ToolError("The user did not confirm. Nothing was done.")


def _key_of(ctx: Context) -> str:
    """Return the key of the request's Authorization header."""
    scheme, _, key = ((ctx.headers or {}).get("authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise ToolError("Send your API key with each request: 'Authorization: Bearer KEY'.")
    return key.strip()
