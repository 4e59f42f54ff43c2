"""Compares docs/reference/emulator.md with the code."""

import json
import re
from pathlib import Path

import typer.main

from botpool.cli.commands import app
from botpool.emulators.coolify.endpoints import ENDPOINTS
from botpool.emulators.coolify.fault_kinds import KINDS, TARGETED, TARGETED_AT_CALL, FaultKind
from tests.backends.emulator.coolify_client import CoolifyClient

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "emulator.md").read_text()
NOTHING = "\N{EN DASH}"
SCOPES = {frozenset[str](): "lasting", TARGETED: "targeted", TARGETED_AT_CALL: "targeted, call"}


def rows_below(title: str) -> list[str]:
    """Return the rows of the first table of a section without its header."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]


def row_of(kind: FaultKind) -> str:
    values = (
        ", ".join(f"`{name} = {shown(value)}`" for name, value in kind.values.items()) or NOTHING
    )
    return f"| `{kind.name}` | {kind.help} | {SCOPES[kind.selectors]} | {values} |"


def shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def test_page_lists_every_fault() -> None:
    expected = [row_of(kind) for kind in KINDS.values()]
    assert rows_below("Faults") == expected, "\n" + "\n".join(expected)


def test_page_lists_every_option_with_its_default() -> None:
    emulate = typer.main.get_command(app).commands["emulate"]  # type: ignore[attr-defined]
    defaults = {
        option.opts[0]: str(option.default)
        for option in emulate.commands["coolify"].params
        if not option.is_flag
    } | {"--no-processes": NOTHING}
    expected = [
        re.match(r"\| `(--\S+)` \| (?:`(.+?)`|(.+?)) \|", row) for row in rows_below("Options")
    ]
    assert {row[1]: (row[2] or row[3]).replace("\\|", "|") for row in expected if row} == defaults


async def test_page_lists_every_control_call(coolify: CoolifyClient) -> None:
    calls = (await coolify.client.get("/_emulator")).json()["calls"]
    expected = [re.match(r"\| `([A-Z]+ \S+)`", row) for row in rows_below("Control API")]
    assert [row and row[1] for row in expected] == calls


def test_page_lists_every_emulated_call() -> None:
    section = PAGE.partition("## Emulated API\n")[2].partition("\n## ")[0]
    assert re.findall(r"`([A-Z]+ /\S*)`", section) == [endpoint.name for endpoint in ENDPOINTS]
