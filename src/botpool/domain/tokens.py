"""Tokens of agents and API keys.

An agent's token holds its assignment's id and an HMAC of it with a key that is derived from the
installation's secret, so no replica stores it and each replica can create and check it. The token
of a bot that a standby gets also holds the standby's run. A standby's own token holds its slot and
its run, with another key: it gives access to the poll for a bot only. API keys and ids of sessions
are random; only their hashes are stored.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence

from botpool.domain.ids import AssignmentId, SlotId

_AGENT_PREFIX = "bpa"
_STANDBY_PREFIX = "bps"
_KEY_PREFIX = "bpk_"
_MAX_ID = 2**63 - 1


def agent_token(
    assignment_id: AssignmentId, key: bytes, *, run_id: AssignmentId | None = None
) -> str:
    """Return the token of an assignment; `run_id` is the run of the standby that gets the bot."""
    ids = (assignment_id,) if run_id is None else (assignment_id, run_id)
    return _token(_AGENT_PREFIX, ids, key)


def assignment_of(token: str, keys: Sequence[bytes]) -> AssignmentId | None:
    """Return the assignment of a token that one of the keys signed; None for an invalid token."""
    ids = _ids_of(token, _AGENT_PREFIX, keys)
    return AssignmentId(ids[0]) if ids else None


def run_of(token: str) -> AssignmentId | None:
    """Return the run in a valid agent's token; None if the container was started for the bot."""
    parts = token.split(".")
    return AssignmentId(int(parts[2])) if len(parts) == 4 else None


def standby_token(slot_id: SlotId, run_id: AssignmentId, key: bytes) -> str:
    return _token(_STANDBY_PREFIX, (slot_id, run_id), key)


def standby_of(token: str, keys: Sequence[bytes]) -> tuple[SlotId, AssignmentId] | None:
    """Return slot and run of a standby's token that one of the keys signed; None if invalid."""
    ids = _ids_of(token, _STANDBY_PREFIX, keys)
    return (SlotId(ids[0]), AssignmentId(ids[1])) if len(ids) == 2 else None


def _token(prefix: str, ids: Sequence[int], key: bytes) -> str:
    return ".".join([prefix, *map(str, ids), _sign(prefix, ids, key)])


def _ids_of(token: str, prefix: str, keys: Sequence[bytes]) -> Sequence[int]:
    """Return the ids of a token that one of the keys signed; none for an invalid token."""
    found, *numbers, signature = token.split(".") if token.count(".") in (2, 3) else ("", "")
    if found != prefix or not all(_is_id(number) for number in numbers):
        return ()
    ids = [int(number) for number in numbers]
    for key in keys:
        if hmac.compare_digest(_sign(prefix, ids, key).encode(), signature.encode()):
            return ids
    return ()


def _is_id(number: str) -> bool:
    return number.isascii() and number.isdigit() and len(number) <= 19 and int(number) <= _MAX_ID


def _sign(prefix: str, ids: Sequence[int], key: bytes) -> str:
    kind = "agent" if prefix == _AGENT_PREFIX else "standby"
    message = " ".join(["botpool", kind, *map(str, ids)]).encode()
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
