"""Resolves a tag to the digest that its registry has now."""

import base64
import json

from botpool.backends.docker.credentials import credentials_for, full_name
from botpool.backends.docker.daemon import Daemon


async def resolve(daemon: Daemon, image: str) -> str:
    """Return `name:tag@digest`; an image with a digest, or of this host alone, stays as it is."""
    if "@" in image or await daemon.is_local_image(image):
        return image
    credentials = json.dumps(credentials_for(image) or {})
    encoded = base64.urlsafe_b64encode(credentials.encode()).decode()
    return f"{image}@{await daemon.registry_digest(full_name(image), encoded)}"


def split_digest(image: str) -> tuple[str, str | None]:
    """Split `name:tag@digest` into name and tag; the tag is None without tag or without digest."""
    tagged, at, _ = image.partition("@")
    name, colon, tag = tagged.rpartition(":")
    if not at or not colon or "/" in tag:
        return tagged, None
    return name, tag
