"""The tree of all commands."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from botpool import __version__
from botpool.cli import (
    audit,
    bot_data,
    bots,
    database,
    doctor,
    emulate,
    import_meeboter,
    keys,
    plan,
    pools,
    rollouts,
    secrets,
    server,
    settings,
    slots,
    tenants,
    webhooks,
)
from botpool.cli.demo import demo
from botpool.cli.mcp import mcp
from botpool.cli.watch import watch

# Plain help: rich help would take longer to import than everything else that help needs.
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


def _print_help_without_subcommand(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"botpool {__version__}")
        raise typer.Exit


def _take_root_options(
    context: typer.Context,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    _print_help_without_subcommand(context)


def _group(help_text: str, **commands: Callable[..., None]) -> typer.Typer:
    group = typer.Typer(help=help_text, **_PLAIN)
    group.callback(invoke_without_command=True)(_print_help_without_subcommand)
    for name, command in commands.items():
        group.command(name)(command)
    return group


_HELP = """The control plane for pools of slow-to-start bot containers.

\b
botpool up                             # run everything on this machine
botpool bot create <meeting link> --wait
botpool watch                          # show the pools, live
botpool doctor                         # check a running installation
"""

app = _group(
    _HELP,
    up=server.up,
    serve=server.serve,
    migrate=database.migrate,
    doctor=doctor.doctor,
    settings=settings.settings,
    demo=demo,
    watch=watch,
    plan=plan.plan,
    queue=pools.queue,
    recover=pools.recover,
    audit=audit.audit,
    mcp=mcp,
)
app.callback(invoke_without_command=True)(_take_root_options)
_GROUPS = {
    "bot": _group(
        "Bots: send them into meetings, show them, stop them.",
        create=bots.create,
        list=bots.list_,
        show=bots.show,
        update=bots.update,
        stop=bots.stop,
        events=bots.events,
        logs=bots.logs,
        artifacts=bot_data.artifacts,
        command=bot_data.command,
    ),
    "slot": _group(
        "Slots: capacity for one bot each.",
        list=slots.list_,
        show=slots.show,
        cordon=slots.cordon,
        uncordon=slots.uncordon,
        release=slots.release,
        recover=slots.recover,
        delete=slots.delete,
    ),
    "pool": _group(
        "Pools: slots with one image and one backend.",
        list=pools.list_,
        show=pools.show,
        drain=pools.drain,
        undrain=pools.undrain,
    ),
    "rollout": _group(
        "Rollouts: a new image for a pool, a share of its bots first.",
        start=rollouts.start,
        status=rollouts.status,
        promote=rollouts.promote,
        rollback=rollouts.rollback,
    ),
    "key": _group(
        "API keys, created in the database: the server need not run.",
        create=keys.create,
        list=keys.list_,
        rotate=keys.rotate,
        revoke=keys.revoke,
    ),
    "tenant": _group(
        "Tenants: teams that share Botpool, each with its own bots.",
        create=tenants.create,
        list=tenants.list_,
        set=tenants.set_,
    ),
    "webhook": _group(
        "Webhooks: addresses that get events.",
        create=webhooks.create,
        list=webhooks.list_,
        test=webhooks.test,
        deliveries=webhooks.deliveries,
        replay=webhooks.replay,
        rotate=webhooks.rotate,
        delete=webhooks.delete,
    ),
    "secret": _group(
        "The installation's secret, which signs agents' tokens.", rotate=secrets.rotate
    ),
    "import": _group("Move over from another system.", meeboter=import_meeboter.meeboter),
    "emulate": _group("Emulated backends, to try Botpool and to test it.", coolify=emulate.coolify),
}
for _name, _members in _GROUPS.items():
    app.add_typer(_members, name=_name)
