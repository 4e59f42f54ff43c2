"""Reads the registry credentials that `docker login` stored in `config.json`.

Like Docker's own command, it uses the credential helper of the registry, else the general helper,
else the file. Without usable credentials the pull is anonymous, and the registry reports an error.
"""

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HUB = "docker.io"
_HELPER_TIMEOUT_S = 60.0
_TOKEN_USER = "<token>"  # noqa: S105 - a marker, not a secret
"""The user name with which helpers return an identity token."""


def full_name(image: str) -> str:
    """Add the registry, which names of Docker Hub's images omit."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{_HUB}/{image}" if slash else f"{_HUB}/library/{image}"


def credentials_for(image: str) -> dict[str, str] | None:
    """Return the credentials for an image, or None for an anonymous pull."""
    registry = full_name(image).partition("/")[0]
    address = "https://index.docker.io/v1/" if registry == _HUB else registry
    try:
        config = json.loads(_config_file().read_bytes())
        helper = config.get("credHelpers", {}).get(address) or config.get("credsStore")
        if helper and (from_helper := _ask_helper(str(helper), address)):
            return from_helper
        entries = config.get("auths", {})
        return next(
            (_parse_entry(entries[key]) for key in _registry_keys(address) if key in entries), None
        )
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None


def _config_file() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def _registry_keys(address: str) -> tuple[str, ...]:
    return (address, f"https://{address}", f"https://{address}/v1/")


def _parse_entry(entry: Mapping[str, Any]) -> dict[str, str] | None:
    if token := entry.get("identitytoken"):
        return {"identitytoken": str(token)}
    if not entry.get("auth"):
        return None
    user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    return {"username": user, "password": password.rstrip("\0")}


def _ask_helper(helper: str, address: str) -> dict[str, str] | None:
    """Return None if the helper is not installed, fails or has no credentials."""
    try:
        result = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=address,
            capture_output=True,
            text=True,
            timeout=_HELPER_TIMEOUT_S,
            check=True,
        )
        reply = json.loads(result.stdout)
        user, secret = str(reply["Username"]), str(reply["Secret"])
    except (OSError, ValueError, LookupError, TypeError, subprocess.SubprocessError):
        return None
    return (
        {"identitytoken": secret} if user == _TOKEN_USER else {"username": user, "password": secret}
    )
