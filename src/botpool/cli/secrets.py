"""`botpool secret`: the secret that signs the tokens of agents."""

from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli.errors import UsageError, print_notice
from botpool.cli.options import ConfigOption, DataDirOption

if TYPE_CHECKING:
    from botpool.settings import Settings

_STEPS = """\
Several replicas: add the new secret as the last of installation.secrets, restart all of them, then
put it first and restart them again. One replica: put it first and restart it. Live bots keep their
tokens as long as the old secret stays in the list; remove it when the bots of before have ended."""


def rotate(
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="Forget all secrets except the newest.")
    ] = False,
) -> None:
    """Create a new secret. Tokens of live bots stay valid until the old secret is removed.

    In embedded mode, the data directory holds the secrets: the command stores the new one, and the
    next start uses it. Otherwise the command prints a new secret for 'installation.secrets'.

    \b
    botpool secret rotate
    botpool secret rotate --finish         # after the bots of before have ended
    """
    from botpool.domain.installation_secret import new_secret
    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})
    if settings.database.embedded and not settings.installation.all_secrets:
        _rotate_stored(settings, finish=finish)
        return
    if finish:
        raise UsageError(
            "--finish: the secrets are in your settings. Remove all except the first from "
            "installation.secrets, and restart the replicas."
        )
    print_notice(_STEPS)
    typer.echo(new_secret())


def _rotate_stored(settings: "Settings", *, finish: bool) -> None:
    """Change the secrets in the data directory."""
    from dataclasses import replace

    from botpool.domain.installation_secret import new_secret
    from botpool.store.data_dir import DataDir

    directory = DataDir.open(settings.data_dir)
    identity = directory.installation()
    kept = identity.secrets[:1] if finish else (new_secret(), *identity.secrets)
    directory.store(replace(identity, secrets=kept))
    if finish:
        typer.echo("Only the newest secret is left. Restart Botpool to refuse the others.")
    else:
        typer.echo("The new secret is stored. Restart Botpool to use it; live bots keep working.")
