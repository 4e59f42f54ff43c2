"""Tokens of agents and API keys.

An agent's token holds its assignment's id and an HMAC of it with a key that is derived from the
installation's secret, so no replica stores it and each replica can create and check it. API keys
and ids of sessions are random; only their hashes are stored.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence

from botpool.domain.ids import AssignmentId

_AGENT_PREFIX = "bpa"
_KEY_PREFIX = "bpk_"
_MAX_ID = 2**63 - 1


def agent_token(assignment_id: AssignmentId, key: bytes) -> str:
    return f"{_AGENT_PREFIX}.{assignment_id}.{_sign(assignment_id, key)}"


def assignment_of(token: str, keys: Sequence[bytes]) -> AssignmentId | None:
    """Return the assignment of a token that one of the keys signed; None for an invalid token."""
    parts = token.split(".")
    if len(parts) != 3 or parts[0] != _AGENT_PREFIX:
        return None
    number = parts[1]
    if not (number.isascii() and number.isdigit()) or len(number) > 19 or int(number) > _MAX_ID:
        return None
    assignment_id = AssignmentId(int(number))
    signature = parts[2].encode()
    for key in keys:
        if hmac.compare_digest(_sign(assignment_id, key).encode(), signature):
            return assignment_id
    return None


def _sign(assignment_id: AssignmentId, key: bytes) -> str:
    message = f"botpool agent {assignment_id}".encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def new_api_key() -> str:
    return _KEY_PREFIX + secrets.token_urlsafe(32)


def hash_api_key(key: str) -> bytes:
    """Hash a key. One round suffices: a key has 256 random bits, unlike a password."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def new_session_id() -> str:
    return secrets.token_urlsafe(32)


def hash_session_id(session_id: str) -> bytes:
    """Hash the id of a session; like a key, the id has 256 random bits."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


def shown_prefix(key: str) -> str:
    """Return the start of a key, by which lists identify it."""
    return key[: len(_KEY_PREFIX) + 6]
