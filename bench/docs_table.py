"""Writes the two tables of docs/explanation/speed.md from the results of `make bench`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "speed.md"
_COLUMNS = {"median", "low", "high", "rounds", "goal", "reached"}
"""The values of a figure with a column of their own; the others are details."""

_Figures: TypeAlias = Mapping[str, Mapping[str, Any]]


def write(conditions: Mapping[str, Any], figures: _Figures) -> None:
    """Replace the tables between their markers."""
    PAGE.write_text(page_with(PAGE.read_text(), conditions, figures))


def page_with(text: str, conditions: Mapping[str, Any], figures: _Figures) -> str:
    """Return the page's text with the tables of these figures."""
    text = _replace(text, "felt", [_circumstances(conditions), "", *_felt_table(figures)])
    return _replace(text, "figures", _figures_table(figures))


def _replace(text: str, marker: str, lines: Sequence[str]) -> str:
    begin, end = f"<!-- {marker} -->", f"<!-- /{marker} -->"
    table = "\n".join([begin, "", *lines, "", end])
    return re.sub(f"{begin}.*{end}", lambda _: table, text, flags=re.DOTALL)


def _circumstances(conditions: Mapping[str, Any]) -> str:
    before, after = conditions["before"]["load_average"][0], conditions["after"]["load_average"][0]
    measured = (
        f"Measured on {conditions['before']['processors']} shared processors (load average "
        f"{before} before and {after} after the run), with PostgreSQL's default settings (`fsync` "
        "on)."
    )
    return " ".join([measured, *([conditions["note"]] if "note" in conditions else [])])


def _felt_table(figures: _Figures) -> list[str]:
    """Return the figures that users feel, as sentences."""
    post, burst = figures["admit_http_open_loop"], figures["admit_http_burst"]
    handover = figures["handover_p99_vs_poll"]
    cycles = [
        figures[f"claim_release_vs_pgbench{callers}"]["cycles_per_s"] for callers in ("", "_256")
    ]
    faster = [
        _short(figures[f"claim_release_vs_{peer}"]["median"])
        for peer in ("pgqueuer", "procrastinate")
    ]
    share = figures["heartbeats_postgres_share"]
    growth = max(figures[f"growth_{what}"]["median"] for what in ("slots", "queue", "history"))
    starts = [figures[name]["up_s"] for name in ("startup_vs_postgres", "first_start_vs_postgres")]
    rows = {
        **_first_call_rows(figures),
        "`POST /v1/bots` answers, 500 per second": f"median {_short(post['p50_ms'])} ms, "
        f"99th percentile {_short(post['p99_ms'])} ms",
        "requests accepted in a burst": f"{burst['posts_per_s']:,} per second",
        "a slot goes from an ended bot to the next queued bot": f"median "
        f"{_short(handover['p50_ms'])} ms, 99th percentile {_short(handover['p99_ms'])} ms "
        f"(a poll every second: {_short(handover['poll_p99_ms'])} ms)",
        "complete cycles (admit, end, stop confirmed, idle)": f"{cycles[0]:,} per second with 32 "
        f"callers, {cycles[1]:,} with 256",
        "the same work in a job queue, 32 callers": f"Botpool is {faster[0]} times as fast as "
        f"pgqueuer and {faster[1]} times as fast as procrastinate",
        f"{share['sent_per_s']:,} heartbeats per second": f"{share['median']:.0%} of one processor "
        "in PostgreSQL",
        "100,000 slots, 100,000 queued bots or a million rows of history": "an admission takes "
        f"{_short(growth)} times as long as in a small installation",
        "`botpool up` is ready": f"after {starts[0]} s; after {starts[1]} s on an empty directory",
    }
    table = [f"| {situation} | {result} |" for situation, result in rows.items()]
    return ["| situation | result |", "|---|---|", *table]


_FIRST_CALLS = {
    "docker_hot": "from `POST /v1/bots` to the bot's first call, Docker: hot slot",
    "docker_warm": "… warm slot",
    "docker_cold": "… new slot, image on disk",
    "docker_start": "… your own `docker start` instead",
    "docker_run": "… your own `docker run` instead",
    "kubernetes_hot": "the same on Kubernetes: hot slot",
    "kubernetes_warm": "… warm slot",
    "kubernetes_cold": "… new slot, image on the node",
    "kubernetes_create": "… your own `create pod` instead",
    "process_hot": "the same with local processes: hot slot",
    "process_warm": "… warm slot",
    "process_cold": "… new slot",
}


def _first_call_rows(figures: _Figures) -> dict[str, str]:
    """Return the times of starts, alone and together, as far as they were measured."""
    rows = {}
    for name, situation in _FIRST_CALLS.items():
        if (figure := figures.get(f"first_call_{name}_ms")) is None:
            continue
        parts = [f"median {_short(figure['median'])} ms"]
        for key, value in figure.items():
            if found := re.fullmatch(r"last_of_(\d+)_ms", key):
                parts.append(f"the last of {found[1]} at once after {_short(value)} ms")
        backend = "" if situation[0] != "…" else name.partition("_")[0]
        rows[f"{situation} ({backend})" if backend else situation] = "; ".join(parts)
    return rows


def _figures_table(figures: _Figures) -> list[str]:
    lines = [
        "| figure | median | low … high | goal | reached | details |",
        "|---|---|---|---|---|---|",
    ]
    for name, values in figures.items():
        details = ", ".join(
            f"{key} {_short(value)}" for key, value in values.items() if key not in _COLUMNS
        )
        reached = {True: "yes", False: "**no**", None: ""}[values["reached"]]
        spread = f"{_short(values['low'])} … {_short(values['high'])}"
        median = _short(values["median"])
        lines.append(
            f"| `{name}` | {median} | {spread} | {values['goal'] or ''} | {reached} | {details} |"
        )
    return lines


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
