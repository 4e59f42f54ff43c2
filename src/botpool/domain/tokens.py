"""Tokens of agents and API keys.

An agent's token holds its assignment's id and an HMAC of it with the installation's secret, so no
replica stores it and each replica can create and check it. API keys are random; only their hashes
are stored.
"""

import hashlib
import hmac
import secrets

from botpool.domain.ids import AssignmentId

_AGENT_PREFIX = "bpa"
_KEY_PREFIX = "bpk_"
_MAX_ID = 2**63 - 1


def agent_token(assignment_id: AssignmentId, secret: bytes) -> str:
    return f"{_AGENT_PREFIX}.{assignment_id}.{_sign(assignment_id, secret)}"


def assignment_of(token: str, secret: bytes) -> AssignmentId | None:
    """Return the assignment of a token; None for an invalid token."""
    parts = token.split(".")
    if len(parts) != 3 or parts[0] != _AGENT_PREFIX:
        return None
    number = parts[1]
    if not (number.isascii() and number.isdigit()) or len(number) > 19 or int(number) > _MAX_ID:
        return None
    assignment_id = AssignmentId(int(number))
    expected = _sign(assignment_id, secret)
    if not hmac.compare_digest(expected.encode(), parts[2].encode()):
        return None
    return assignment_id


def _sign(assignment_id: AssignmentId, secret: bytes) -> str:
    message = f"botpool agent {assignment_id}".encode()
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


def new_api_key() -> str:
    return _KEY_PREFIX + secrets.token_urlsafe(32)


def hash_api_key(key: str) -> bytes:
    """Hash a key. One round suffices: a key has 256 random bits, unlike a password."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def shown_prefix(key: str) -> str:
    """Return the start of a key, by which lists identify it."""
    return key[: len(_KEY_PREFIX) + 6]
