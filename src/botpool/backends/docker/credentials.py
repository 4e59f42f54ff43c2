"""Who we are to a registry: what `docker login` has left in `config.json`.

As Docker's own command does it: the helper of that registry, else that of all, else the file. A
file or a helper that is of no use makes an anonymous pull, and the registry's refusal says so.
"""

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HUB = "docker.io"
_HELPER_S = 60.0
_NO_USER = "<token>"
"""What helpers say instead of a user where they give an identity token."""


def full_name(image: str) -> str:
    """With its registry, which the names of Docker Hub's images leave out."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"{_HUB}/{image}" if slash else f"{_HUB}/library/{image}"


def credentials_for(image: str) -> dict[str, str] | None:
    """None for an anonymous pull."""
    registry = full_name(image).partition("/")[0]
    address = "https://index.docker.io/v1/" if registry == _HUB else registry
    try:
        told = json.loads(_file().read_bytes())
        helper = told.get("credHelpers", {}).get(address) or told.get("credsStore")
        if helper and (asked := _of_helper(str(helper), address)):
            return asked
        known = told.get("auths", {})
        return next((_of_entry(known[name]) for name in _spelled(address) if name in known), None)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None


def _file() -> Path:
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def _spelled(address: str) -> tuple[str, ...]:
    return (address, f"https://{address}", f"https://{address}/v1/")


def _of_entry(entry: Mapping[str, Any]) -> dict[str, str] | None:
    if token := entry.get("identitytoken"):
        return {"identitytoken": str(token)}
    if not entry.get("auth"):
        return None
    user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    return {"username": user, "password": password.rstrip("\0")}


def _of_helper(helper: str, address: str) -> dict[str, str] | None:
    """None if it is not installed, fails, or knows nobody there."""
    try:
        asked = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=address,
            capture_output=True,
            text=True,
            timeout=_HELPER_S,
            check=True,
        )
        answer = json.loads(asked.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (OSError, ValueError, LookupError, TypeError, subprocess.SubprocessError):
        return None
    return {"identitytoken": secret} if user == _NO_USER else {"username": user, "password": secret}
