"""The secret of an installation: its strength, and the keys that Botpool derives from it.

Every purpose has its own key, derived with HKDF-SHA256 (RFC 5869), so that the use of one key
reveals nothing about another.
"""

import hashlib
import hmac
import math
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

MIN_LENGTH = 32
HOW_TO_CREATE = "create one with: openssl rand -hex 32"
EXAMPLE_SECRET = "0b6e2a4f8c1d9375e0a4b6c8d2f19e57"  # noqa: S105
EXAMPLE_NEWER_SECRET = "c4f7d1a95e2b8036a7d94c1e6f8b2053"  # noqa: S105
"""The secrets in the documentation. Settings accept them, but no server starts with them."""

_MIN_BITS = 64
_SALT = b"botpool installation"
_COMMON_WORDS = re.compile(r"change.?me|password|secret|example|placeholder|botpool", re.IGNORECASE)


class Purpose(StrEnum):
    """The purposes for which Botpool derives keys."""

    AGENTS = "agents"
    WEBHOOKS = "webhooks"
    STANDBYS = "standbys"


def new_secret() -> str:
    return secrets.token_hex(32)


def weakness_of(secret: str) -> str | None:
    """Say why a secret is too weak; None for a strong one. The answer does not show the secret."""
    if len(secret) < MIN_LENGTH:
        return f"has {len(secret)} characters; it needs at least {MIN_LENGTH}: {HOW_TO_CREATE}"
    if found := _COMMON_WORDS.search(secret):
        return f"contains the word {found[0]!r} and can be guessed: {HOW_TO_CREATE}"
    if _estimated_bits(secret) < _MIN_BITS:
        return f"repeats itself or follows a pattern and can be guessed: {HOW_TO_CREATE}"
    return None


def derive_key(secret: str, purpose: Purpose) -> bytes:
    """Derive the key of one purpose from a secret (one block of HKDF-SHA256)."""
    extracted = hmac.digest(_SALT, secret.encode(), hashlib.sha256)
    return hmac.digest(extracted, purpose.encode() + b"\x01", hashlib.sha256)


def derive_keys(installation_secrets: Sequence[str], purpose: Purpose) -> tuple[bytes, ...]:
    """Derive the keys of one purpose from several secrets, in the same order."""
    return tuple(derive_key(secret, purpose) for secret in installation_secrets)


def _estimated_bits(text: str) -> float:
    """Estimate the entropy: bits per character, counted once for each distinct triple.

    The differences between neighbours reveal sequences such as `abcdefgh`; the triples reveal
    repetitions.
    """
    steps = [ord(after) - ord(before) for before, after in pairwise(text)]
    triples = {text[at : at + 3] for at in range(len(text) - 2)}
    return min(_entropy(text), _entropy(steps)) * len(triples)


def _entropy(items: Sequence[object]) -> float:
    """Shannon's entropy in bits per item."""
    total = len(items)
    return -sum(n / total * math.log2(n / total) for n in Counter(items).values())
