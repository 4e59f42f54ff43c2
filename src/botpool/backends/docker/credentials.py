"""Who we are to a registry: what `docker login` has left in `config.json`."""

import json
import os
from pathlib import Path


def credentials_for(image: str) -> dict[str, str] | None:
    """None for an anonymous pull. Credential helpers are not asked."""
    folder = os.environ.get("DOCKER_CONFIG")
    path = (Path(folder) if folder else Path.home() / ".docker") / "config.json"
    try:
        known = json.loads(path.read_bytes()).get("auths", {})
    except (OSError, ValueError, AttributeError):
        return None
    registry, _, rest = image.partition("/")
    # Without a dot or a port, the first part is a user of Docker Hub, and not a registry.
    if not rest or not ("." in registry or ":" in registry or registry == "localhost"):
        return None
    for name in (registry, f"https://{registry}", f"https://{registry}/v1/"):
        entry = known.get(name)
        if isinstance(entry, dict) and entry.get("auth"):
            return {"auth": str(entry["auth"])}
    return None
