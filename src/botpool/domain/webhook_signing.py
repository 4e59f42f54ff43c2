"""Secrets and signatures of webhooks, by the Standard Webhooks specification.

A webhook's secret signs each request with HMAC-SHA256. Botpool needs the secret itself for that, so
it cannot store a hash: it stores the secret sealed with a key that is derived from the
installation's secret. A copy of the database alone reveals no secret.

A seal is the secret XOR one block of HMAC-SHA256 over a random salt, which is never used twice,
followed by a tag that authenticates both. The standard library has no cipher, and a secret is as
long as the block, so this needs none.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

_PREFIX = "whsec_"
_LENGTH = 32
_SALT = 16
_TAG = 16


def new_webhook_secret() -> bytes:
    return secrets.token_bytes(_LENGTH)


def shown_secret(secret: bytes) -> str:
    """Return the text of a secret, as the verifiers of receivers take it."""
    return _PREFIX + base64.b64encode(secret).decode("ascii")


def sign(secret: bytes, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return one signature of a message."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.digest(secret, signed, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode('ascii')}"


def signed_headers(
    signing: Sequence[bytes], *, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers of a message. During a rotation both secrets sign it."""
    signatures = (
        sign(secret, message_id=message_id, timestamp=timestamp, body=body) for secret in signing
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def seal(secret: bytes, key: bytes) -> bytes:
    """Encrypt a secret with a key of the installation."""
    salt = secrets.token_bytes(_SALT)
    sealed = salt + _xor(secret, _block(key, b"pad", salt))
    return sealed + _block(key, b"tag", sealed)[:_TAG]


def unseal(sealed: bytes, keys: Sequence[bytes]) -> bytes | None:
    """Decrypt a secret that one of the keys has sealed; None if none of them has."""
    text, tag = sealed[:-_TAG], sealed[-_TAG:]
    for key in keys:
        if hmac.compare_digest(_block(key, b"tag", text)[:_TAG], tag):
            return _xor(text[_SALT:], _block(key, b"pad", text[:_SALT]))
    return None


def _block(key: bytes, use: bytes, text: bytes) -> bytes:
    return hmac.digest(key, use + b"\x00" + text, hashlib.sha256)


def _xor(text: bytes, pad: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(text, pad, strict=True))
