"""`botpool doctor`: is everything as it must be? Reads, compares, says what to do; changes nothing.

It needs no server and no API key, only the settings of `serve` or `up`: when the server does not
answer is when somebody asks.
"""

import sys
from collections.abc import Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.connection import ConfigOption, DataDirOption
from botpool.domain.errors import BotpoolError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from botpool.engine.maintenance.doctor import Finding
    from botpool.settings import Settings
    from botpool.store.installation import Installation

_PATIENCE_S = 2.0
_NO_SECRET = ""  # it signs the tokens of agents, and none is started here
_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}

ListingOption = Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")]


@dataclass(eq=False)
class NothingRuns(BotpoolError):
    data_dir: str

    def __str__(self) -> str:
        return (
            f"No Botpool runs on the data directory {self.data_dir}: there is nothing to examine. "
            "Start it with 'botpool up', or name another with --data-dir or --config."
        )


def doctor(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: ListingOption = False
) -> None:
    """Examine a running system: its database, its backends, what must always hold.

    Give it the settings of 'serve' or 'up'. It only reads. Exit code 0: all is well, perhaps with
    warnings; 1: something is wrong.

    \b
    botpool doctor --config /etc/botpool.toml
    botpool doctor --json
    """
    import asyncio

    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})
    findings = asyncio.run(_examine(settings, _installed(settings)))
    wrong = [each for each in findings if each.result == "wrong"]
    if as_json:
        output.write_json(_json(findings, ok=not wrong))
    else:
        output.show(table(findings), verdict(findings))
    raise typer.Exit(1 if wrong else 0)


def table(findings: "Sequence[Finding]") -> "Table":
    from rich.text import Text

    from botpool.cli.cells import clean, listing

    shown = listing()
    shown.add_column("CHECK", no_wrap=True)
    shown.add_column("RESULT", no_wrap=True)
    shown.add_column("FOUND", overflow="fold", ratio=1)
    shown.add_column("WHAT TO DO", overflow="fold", ratio=1)
    for each in findings:
        shown.add_row(
            each.check,
            Text(each.result, style=_STYLES[each.result]),
            Text(clean(each.found)) if each.found else Text(each.meaning, style="dim"),
            Text(clean(each.remedy)),
        )
    return shown


def verdict(findings: "Sequence[Finding]") -> str:
    wrong, warnings = (
        sum(each.result == result for each in findings) for result in ("wrong", "warning")
    )
    checked = f"{len(findings)} checks"
    if wrong or warnings:
        return f"{checked}: {wrong} wrong, {warnings} with a warning."
    return f"{checked}: all is well."


def _json(findings: "Sequence[Finding]", *, ok: bool) -> bytes:
    import json
    from dataclasses import asdict

    answer = {"ok": ok, "findings": [asdict(each) for each in findings]}
    return json.dumps(answer, ensure_ascii=False).encode()


def _installed(settings: "Settings") -> "Installation":
    """As `serve` finds it, but nothing is made or started where it is missing."""
    from botpool.store.data_dir import DataDir
    from botpool.store.embedded import EmbeddedPostgres
    from botpool.store.installation import Installation

    data_dir = DataDir(settings.data_dir)
    id_ = settings.installation.id
    if not settings.database.embedded:
        assert id_ is not None
        return Installation(
            database_url=settings.database.url.get_secret_value(),
            installation_id=id_,
            secret=_NO_SECRET,
            data_dir=data_dir,
        )
    url = EmbeddedPostgres(data_dir).attach()
    if url is None:
        raise NothingRuns(str(data_dir.root))
    if not data_dir.installation_file.exists():
        problem = f"{data_dir.installation_file} is missing beside a running database"
        raise SettingError("data_dir", problem)
    return Installation(
        database_url=url,
        installation_id=id_ or data_dir.installation().id,
        secret=_NO_SECRET,
        data_dir=data_dir,
    )


async def _examine(settings: "Settings", installed: "Installation") -> "list[Finding]":
    from botpool.app import under_examination
    from botpool.engine.maintenance.doctor import examine

    findings: list[Finding] = []
    async with under_examination(settings, installed) as subject:
        with _progress() as say_looked_at:
            async with aclosing(examine(subject)) as examination:
                async for finding in examination:
                    findings.append(finding)
                    say_looked_at(finding.check)
    return findings


@contextmanager
def _progress() -> "Iterator[Callable[[str], None]]":
    """On a terminal, what was looked at last: once it takes long enough to wonder."""
    import asyncio

    status = output.console(sys.stderr).status("Looking …")
    start = asyncio.get_running_loop().call_later(_PATIENCE_S, status.start)
    try:
        yield lambda check: status.update(f"Looking: {check} is done …")
    finally:
        start.cancel()
        status.stop()
