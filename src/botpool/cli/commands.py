"""All commands, under their names."""

from collections.abc import Callable
from typing import Any

import typer

from botpool.cli import benching, bots, doctor, emulate, keys, pools, serving, settings, slots
from botpool.cli.watch import watch

# Plain help: to import what draws boxes takes longer than everything else that help does.
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}


def _help_if_alone(context: typer.Context) -> None:
    """A command without its verb is answered with what there is."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def _group(help_text: str, **commands: Callable[..., None]) -> typer.Typer:
    group = typer.Typer(help=help_text, **_PLAIN)
    group.callback(invoke_without_command=True)(_help_if_alone)
    for name, command in commands.items():
        group.command(name)(command)
    return group


_WELCOME = """The control plane for pools of slow-to-start bot containers.

\b
botpool up                             # everything, on this machine
botpool bot create <meeting link> --wait
botpool watch                          # the pools, live
botpool doctor                         # is everything as it must be?
"""

app = _group(
    _WELCOME,
    up=serving.up,
    serve=serving.serve,
    migrate=serving.migrate,
    doctor=doctor.doctor,
    settings=settings.settings,
    demo=serving.demo,
    bench=benching.bench,
    watch=watch,
    queue=pools.queue,
    recover=pools.recover,
)
app.add_typer(
    _group(
        "Bots: send them into meetings, see them, end them.",
        create=bots.create,
        list=bots.list_,
        show=bots.show,
        stop=bots.stop,
        events=bots.events,
        logs=bots.logs,
    ),
    name="bot",
)
app.add_typer(
    _group(
        "Slots: the places where bots run.",
        list=slots.list_,
        show=slots.show,
        cordon=slots.cordon,
        uncordon=slots.uncordon,
        release=slots.release,
        recover=slots.recover,
        delete=slots.delete,
    ),
    name="slot",
)
app.add_typer(
    _group(
        "Pools: the slots of one platform.",
        list=pools.list_,
        show=pools.show,
        drain=pools.drain,
        undrain=pools.undrain,
    ),
    name="pool",
)
app.add_typer(
    _group(
        "API keys, made in the database: the server need not run.",
        create=keys.create,
        list=keys.list_,
        revoke=keys.revoke,
    ),
    name="key",
)
app.add_typer(
    _group("Emulated platforms, to try and test against.", coolify=emulate.coolify),
    name="emulate",
)
