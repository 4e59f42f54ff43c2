"""The pool name of a meeting link."""

from urllib.parse import urlsplit

_HOSTS = {
    "meet.google.com": "google-meet",
    "teams.microsoft.com": "teams",
    "teams.live.com": "teams",
    "teams.cloud.microsoft": "teams",
    "zoom.us": "zoom",
    "zoom.com": "zoom",
}


def host_of(url: str) -> str | None:
    """Return the host of an http(s) link; None for any other text."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # an invalid port raises
    except ValueError:
        return None
    return host if host and parts.scheme.lower() in ("http", "https") else None


def pool_name_of(url: str) -> str | None:
    """Return the pool name of a link by its host or a parent domain: `us02web.zoom.us` is Zoom."""
    labels = (host_of(url) or "").rstrip(".").lower().split(".")
    for start in range(len(labels) - 1):
        if (pool_name := _HOSTS.get(".".join(labels[start:]))) is not None:
            return pool_name
    return None
