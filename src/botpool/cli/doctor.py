"""`botpool doctor`: checks an installation and says what to do. It changes nothing.

The command needs the settings of `serve` or `up`, but neither a server nor an API key, so that it
works when the server does not answer.
"""

import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from botpool.cli import output
from botpool.cli.errors import CommandFailed
from botpool.cli.options import ConfigOption, DataDirOption
from botpool.domain.errors import SettingError

if TYPE_CHECKING:
    from rich.table import Table

    from botpool.engine.maintenance.doctor import Finding
    from botpool.settings import Settings
    from botpool.store.installation import Installation

_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}

FindingsJsonOption = Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")]


def doctor(
    config: ConfigOption = None, data_dir: DataDirOption = None, as_json: FindingsJsonOption = False
) -> None:
    """Check the database, the backends and the invariants.

    The command needs the settings of 'serve' or 'up', and only reads. Exit code 0: no problem,
    perhaps warnings; 1: a problem.

    \b
    botpool doctor --config /etc/botpool.toml
    botpool doctor --json
    """
    import asyncio

    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})
    findings = asyncio.run(_check(settings, _installation(settings)))
    wrong = [each for each in findings if each.result == "wrong"]
    if as_json:
        output.write_json(_json(findings, ok=not wrong))
    else:
        output.show(table(findings), verdict(findings))
    raise typer.Exit(1 if wrong else 0)


def table(findings: "Sequence[Finding]") -> "Table":
    from rich.text import Text

    from botpool.cli.formatting import list_table, sanitised

    shown = list_table("CHECK", "RESULT")
    shown.add_column("FOUND", overflow="fold", ratio=1)
    shown.add_column("WHAT TO DO", overflow="fold", ratio=1)
    for each in findings:
        shown.add_row(
            each.check,
            Text(each.result, style=_STYLES[each.result]),
            Text(sanitised(each.found)) if each.found else Text(each.meaning, style="dim"),
            Text(sanitised(each.remedy)),
        )
    return shown


def verdict(findings: "Sequence[Finding]") -> str:
    wrong, warnings = (
        sum(each.result == result for each in findings) for result in ("wrong", "warning")
    )
    checked = f"{len(findings)} checks"
    if wrong or warnings:
        return f"{checked}: {wrong} wrong, {warnings} with a warning."
    return f"{checked}: no problem found."


def _json(findings: "Sequence[Finding]", *, ok: bool) -> bytes:
    import json
    from dataclasses import asdict

    body = {"ok": ok, "findings": [asdict(each) for each in findings]}
    return json.dumps(body, ensure_ascii=False).encode()


def _installation(settings: "Settings") -> "Installation":
    """The installation that `serve` uses. Missing parts are not created."""
    from botpool.cli.database import installation_of
    from botpool.store.data_dir import DataDir
    from botpool.store.embedded import EmbeddedPostgres

    data_dir = DataDir(settings.data_dir)
    if not settings.database.embedded:
        return installation_of(settings, data_dir)
    url = EmbeddedPostgres(data_dir).attach()
    if url is None:
        raise CommandFailed(
            f"No Botpool runs on the data directory {data_dir.root}, so there is nothing to check. "
            "Start it with 'botpool up', or give another directory with --data-dir or --config."
        )
    if not data_dir.installation_file.exists():
        problem = f"{data_dir.installation_file} is missing although the database runs"
        raise SettingError("data_dir", problem)
    return installation_of(settings, data_dir, url)


async def _check(settings: "Settings", installed: "Installation") -> "list[Finding]":
    from botpool.app import doctor_target
    from botpool.engine.maintenance.doctor import run_checks

    findings: list[Finding] = []
    with output.console(sys.stderr).status("Checking …") as status:
        async with (
            doctor_target(settings, installed) as target,
            aclosing(run_checks(target)) as checks,
        ):
            async for finding in checks:
                findings.append(finding)
                status.update(f"Checking … {finding.check} is done")
    return findings
