"""Texts that Coolify shows as they were written."""

import re

_LONGEST = 255


def shown_as_written(text: str) -> str:
    """Without what Coolify would cut, trim or choke on: what looks like a tag, and length."""
    plain = re.sub(r"[\x00-\x1f\x7f]+", " ", text).replace("<", "(").strip()
    if len(plain) > _LONGEST:
        plain = f"{plain[: _LONGEST - 1].rstrip()}…"
    return plain
