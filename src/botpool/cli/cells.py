"""Parts of tables: statuses with their colours, and foreign text made harmless."""

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
    """A status is always a word; its colour only says it again."""
    text = Text(clean(name), style=_STYLES.get(name, ""))
    return text.append(f" ({clean(note)})") if note else text


def change(old: str | None, new: str | None) -> Text:
    """From one state to another; a beginning and an end have only one, a note of an agent none."""
    text = Text()
    if old is None and new is None:
        return text.append(NONE)
    if old is not None:
        text.append_text(status(old)).append(" → ")
    return text.append_text(status(new)) if new is not None else text.append("gone")


def said(value: object) -> Text:
    return Text(NONE if value is None else clean(str(value)))


def clean(text: str) -> str:
    """Text from meetings and containers: it must not steer the terminal, nor break the line."""
    return " ".join(
        "".join(" " if unicodedata.category(each)[0] == "C" else each for each in text).split()
    )


def short(text: str, limit: int) -> str:
    text = clean(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def giving_way(text: Text) -> Text:
    """A cell that is cut when the line is full, in a column that gives way to the others.

    The column itself must not be `no_wrap`: rich takes room from such columns last.
    """
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def slot_number(name: str | None) -> str:
    """The number in a slot's name, where the pool is named beside it."""
    return NONE if name is None else clean(name.rpartition("-")[2])


def listing() -> Table:
    """A table without lines: easy to read, to cut and to grep."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def facts() -> Table:
    """Names and values, one to a line."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table
