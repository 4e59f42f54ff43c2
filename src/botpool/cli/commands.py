"""All commands, under their names."""

import typer

from botpool.cli import serving

app = typer.Typer(
    name="botpool",
    help="The control plane for pools of slow-to-start bot containers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(serving.up)
app.command()(serving.serve)
app.command()(serving.migrate)
