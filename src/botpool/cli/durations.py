"""Durations that a user types, such as `30d`."""

import re
from typing import Annotated

import typer

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST_S = 3_650 * 86_400


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip().lower(), re.ASCII)
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is not a duration: use a number and s, m, h, d or w, such as 30d"
        )
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > _LONGEST_S:
        raise typer.BadParameter(f"{text!r} is longer than ten years")
    return float(seconds)


def _lifetime(text: str) -> float:
    if (seconds := _seconds(text)) == 0:
        raise typer.BadParameter("a key with this lifetime would be invalid at once")
    return seconds


ExpiresOption = Annotated[
    float | None,
    typer.Option(
        "--expires",
        parser=_lifetime,
        metavar="DURATION",
        help="The key's lifetime, such as 12h or 90d. Default: unlimited",
    ),
]
OverlapOption = Annotated[
    float,
    typer.Option(
        "--overlap",
        parser=_seconds,
        metavar="DURATION",
        help="How long the former key stays valid, such as 12h; 0s ends it at once.",
    ),
]
BakeOption = Annotated[
    float,
    typer.Option(
        "--bake",
        parser=_seconds,
        metavar="DURATION",
        help="The shortest time of the canary before the promotion: 30m, 2h.",
    ),
]
ReplayOption = Annotated[
    float,
    typer.Option(
        "--replay",
        parser=_seconds,
        metavar="DURATION",
        help="How much of the record to replay, up to now: 12h, 7d.",
    ),
]
WithinOption = Annotated[
    float,
    typer.Option(
        "--within",
        parser=_seconds,
        metavar="DURATION",
        help="A bot is on time if it runs within this time after its request: 5s, 1m.",
    ),
]
