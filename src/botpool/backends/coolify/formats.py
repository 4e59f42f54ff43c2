"""Converts image names and descriptions to the forms that Coolify accepts."""

import re

_MAX_DESCRIPTION_LENGTH = 255


def split_image(reference: str) -> tuple[str, str]:
    """Split `[registry[:port]/]name[:tag][@sha256:digest]` into name and tag.

    Coolify joins both with a colon, so a digest becomes the tag of a name that ends in `@sha256`;
    a tag beside a digest has no effect and is dropped.
    """
    reference, _, digest = reference.partition("@")
    base, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        base, tag = reference, "latest"
    if digest:
        algorithm, _, value = digest.partition(":")
        return f"{base}@{algorithm}", value
    return base, tag


def clean_description(text: str) -> str:
    """Replace control characters and `<`, at which Coolify cuts the text, and limit the length."""
    plain = re.sub(r"[\x00-\x1f\x7f]+", " ", text).replace("<", "(").strip()
    if len(plain) > _MAX_DESCRIPTION_LENGTH:
        plain = f"{plain[: _MAX_DESCRIPTION_LENGTH - 1].rstrip()}…"
    return plain
