"""The emulator's page in the docs says what the emulator is."""

import json
import re
from pathlib import Path

import typer.main

from botpool.cli.commands import app
from botpool.emulators.coolify.endpoints import ENDPOINTS
from botpool.emulators.coolify.fault_kinds import AIMED, AT_CALL, KINDS, Kind
from tests.backends.emulator.emulated_coolify import Coolify

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "emulator.md").read_text()
NOTHING = "\N{EN DASH}"
AIMS = {frozenset[str](): "lasts", AIMED: "aimed", AT_CALL: "aimed, also at a call"}


def rows_below(title: str) -> list[str]:
    """The rows of the first table of a section, without its head."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]


def row_of(kind: Kind) -> str:
    values = (
        ", ".join(f"`{name} = {shown(value)}`" for name, value in kind.values.items()) or NOTHING
    )
    return f"| `{kind.name}` | {kind.help} | {AIMS[kind.aims]} | {values} |"


def shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def test_every_fault_is_there_as_it_is() -> None:
    expected = [row_of(kind) for kind in KINDS.values()]
    assert rows_below("Faults") == expected, "\n" + "\n".join(expected)


def test_every_option_is_there_with_its_default() -> None:
    emulate = typer.main.get_command(app).commands["emulate"]  # type: ignore[attr-defined]
    defaults = {
        option.opts[0]: str(option.default)
        for option in emulate.commands["coolify"].params
        if not option.is_flag
    } | {"--no-processes": NOTHING}
    told = [re.match(r"\| `(--\S+)` \| (?:`(.+?)`|(.+?)) \|", row) for row in rows_below("Options")]
    assert {row[1]: (row[2] or row[3]).replace("\\|", "|") for row in told if row} == defaults


async def test_every_call_of_the_control_is_there(prompt: Coolify) -> None:
    calls = (await prompt.client.get("/_emulator")).json()["calls"]
    told = [re.match(r"\| `([A-Z]+ \S+)`", row) for row in rows_below("Control")]
    assert [row and row[1] for row in told] == calls


def test_every_emulated_call_is_there() -> None:
    section = PAGE.partition("## What it answers\n")[2].partition("\n## ")[0]
    assert re.findall(r"`([A-Z]+ /\S*)`", section) == [endpoint.name for endpoint in ENDPOINTS]
