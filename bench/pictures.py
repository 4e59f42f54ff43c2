"""Draws the figures for the docs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
# Equal figures produce equal files.
mpl.rcParams["svg.hashsalt"] = "botpool"

import matplotlib.pyplot as plt  # noqa: E402 - after the backend was chosen

FOLDER = Path(__file__).parents[1] / "docs" / "pictures" / "bench"
_REACHED, _MISSED, _GOAL, _LIMIT = "#2a7f62", "#c0563f", "#333333", "#3b6ea5"


def draw(figures: Mapping[str, Mapping[str, Any]]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for at_most, name, title in (
        (
            False,
            "more-is-better.svg",
            "Ratios as parts of their goals: more is better (◆ measured limit)",
        ),
        (
            True,
            "less-is-better.svg",
            "Ratios as parts of their goals: less is better (◆ measured limit)",
        ),
    ):
        sign = "≤" if at_most else "≥"
        chosen = {
            figure: values
            for figure, values in figures.items()
            if (values["goal"] or "").startswith(sign)
        }
        _draw(FOLDER / name, title, chosen)


def _draw(path: Path, title: str, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw one bar for each figure, with its range and its limit, as a part of its goal."""
    picture, axes = plt.subplots(figsize=(8, 0.5 * len(figures) + 1.2))
    for row, values in enumerate(reversed([*figures.values()])):
        goal = float(values["goal"].split()[1])
        median, low, high = (values[key] / goal for key in ("median", "low", "high"))
        axes.barh(row, median, color=_REACHED if values["reached"] else _MISSED, height=0.6)
        axes.errorbar(
            median, row, xerr=[[median - low], [high - median]], color=_GOAL, capsize=3, lw=1
        )
        if "limit" in values:
            axes.plot(values["limit"] / goal, row, marker="D", color=_LIMIT, ms=6, mec="white")
        axes.text(max(median, high) * 1.03, row, f"{values['median']:.3g}", va="center", size=8)
    axes.axvline(1, color=_GOAL, lw=1, ls="--")
    axes.set_yticks(range(len(figures)), [*figures][::-1], size=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.set_title(title, size=10)
    axes.spines[["top", "right"]].set_visible(False)
    picture.tight_layout()
    picture.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(picture)
