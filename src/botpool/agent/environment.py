"""The environment variables that Botpool sets in a container, new for each assignment."""

import json
from collections.abc import Mapping
from typing import Any

from .errors import Misconfigured


def read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `Agent` that the environment contains."""
    container_id = environ.get("BOTPOOL_CONTAINER_ID") or environ.get("COOLIFY_RESOURCE_UUID")
    if not container_id:
        raise Misconfigured("BOTPOOL_CONTAINER_ID", "is not set, nor COOLIFY_RESOURCE_UUID.")
    # A container on standby has no bot yet, and no token of an assignment.
    standby_token = "" if environ.get("BOTPOOL_TOKEN") else environ.get("BOTPOOL_STANDBY_TOKEN", "")
    return {
        "url": _required(environ, "BOTPOOL_URL"),
        "container_id": container_id,
        "token": standby_token.strip() or _required(environ, "BOTPOOL_TOKEN"),
        "on_standby": bool(standby_token.strip()),
        "correlation_id": _correlation_id_in(environ.get("BOT_DATA", "")),
        "wait_for_stop_s": _seconds(environ, "BOTPOOL_WAIT_FOR_STOP_S"),
        "self_fence_s": _seconds(environ, "BOTPOOL_SELF_FENCE_S"),
    }


def _required(environ: Mapping[str, str], variable: str) -> str:
    if value := environ.get(variable, "").strip():
        return value
    raise Misconfigured(variable, "is not set. Botpool sets it in the containers that it starts.")


def _seconds(environ: Mapping[str, str], variable: str) -> float:
    """Return a number of seconds from 0; 0 if the variable is not set."""
    text = environ.get(variable, "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    if text:
        raise Misconfigured(variable, f"is {text!r}, not a number of seconds.")
    return 0.0


def _correlation_id_in(bot_data: str) -> str | None:
    """Return the correlation id for the first call; BOT_DATA may be missing or foreign."""
    try:
        return str(json.loads(bot_data)["correlationId"])
    except (ValueError, KeyError, TypeError):
        return None
