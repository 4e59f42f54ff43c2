"""Sessions of the dashboard with ends that a test wants: the server gives out long ones only."""

import hashlib
import hmac

COOKIE = "botpool_session"


def session(secret: str, key_id: int, *, ends_at: float) -> str:
    """The cookie of a key's session, as the installation with this secret would sign it."""
    body = f"{key_id}.{int(ends_at)}"
    message = f"botpool session {body}".encode()
    return f"{body}.{hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()}"
