"""Writes the table of figures into docs/explanation/speed.md."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "speed.md"
_BEGIN, _END = "<!-- figures -->", "<!-- /figures -->"


def write(conditions: Mapping[str, Any], figures: Mapping[str, Mapping[str, Any]]) -> None:
    before, after = conditions["before"]["load_average"][0], conditions["after"]["load_average"][0]
    circumstances = (
        f"Measured on {conditions['before']['processors']} processors that were shared with other "
        f"work: load average {before} before and {after} after the last run."
    )
    lines = [
        "| figure | median | low … high | goal | reached | details |",
        "|---|---|---|---|---|---|",
    ]
    for name, values in figures.items():
        shown = {"median", "low", "high", "rounds", "goal", "reached"}
        details = ", ".join(
            f"{key} {_short(value)}" for key, value in values.items() if key not in shown
        )
        reached = {True: "yes", False: "**no**", None: ""}[values["reached"]]
        spread = f"{_short(values['low'])} … {_short(values['high'])}"
        median = _short(values["median"])
        lines.append(
            f"| `{name}` | {median} | {spread} | {values['goal'] or ''} | {reached} | {details} |"
        )
    table = "\n".join([_BEGIN, "", circumstances, "", *lines, "", _END])
    text = PAGE.read_text()
    PAGE.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: table, text, flags=re.DOTALL))


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
