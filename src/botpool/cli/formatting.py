"""Cells and styles of tables. Text from meetings and containers is sanitised here."""

import unicodedata
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

NONE = "-"

_STYLES: Mapping[str, str] = {
    "PENDING": "yellow",
    "QUEUED": "yellow",
    "DEPLOYING": "cyan",
    "JOINING_CALL": "blue",
    "IN_WAITING_ROOM": "blue",
    "IN_CALL": "green",
    "LEAVING": "magenta",
    "CALL_ENDED": "magenta",
    "DONE": "bold green",
    "FAILED": "bold red",
    "CANCELLED": "dim",
    "idle": "dim",
    "deploying": "cyan",
    "busy": "green",
    "releasing": "magenta",
    "error": "bold red",
    "deleting": "red",
}


def status(name: str, note: str | None = None) -> Text:
    """A status in its colour. The word alone is enough to read it."""
    text = Text(sanitised(name), style=_STYLES.get(name, ""))
    return text.append(f" ({sanitised(note)})") if note else text


def transition(old: str | None, new: str | None) -> Text:
    """From one state to another. A creation has no old state, a deletion no new one."""
    text = Text()
    if old is None and new is None:
        return text.append(NONE)
    if old is not None:
        text.append_text(status(old)).append(" → ")
    return text.append_text(status(new)) if new is not None else text.append("gone")


def cell(value: object) -> Text:
    return Text(NONE if value is None else sanitised(str(value)))


def sanitised(text: str) -> str:
    """The text without control characters and line breaks, which could steer the terminal."""
    return " ".join(
        "".join(" " if unicodedata.category(each)[0] == "C" else each for each in text).split()
    )


def shortened(text: str, limit: int) -> str:
    text = sanitised(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shrinkable(text: Text) -> Text:
    """A cell that ends with an ellipsis when the line is full.

    Its column must not be `no_wrap`: rich shrinks such columns last.
    """
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def slot_number(name: str | None) -> str:
    """The number in a slot's name."""
    return NONE if name is None else sanitised(name.rpartition("-")[2])


def list_table(*names: str, right: str = "", wrap: str = "") -> Table:
    """A table with a header and no lines.

    `right` lists the columns that are aligned to the right, and `wrap` those that become narrower
    when the line is full.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(
            name,
            justify="right" if name in right.split() else "left",
            no_wrap=name not in wrap.split(),
            overflow="fold",
        )
    return table


def detail_table() -> Table:
    """A table with a name and a value in each row."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table
