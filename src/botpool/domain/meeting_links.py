"""Which pool_name a meeting link belongs to."""

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
    """The host of an http(s) link; None when it is not one."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that cannot be raises
    except ValueError:
        return None
    return host if host and parts.scheme.lower() in ("http", "https") else None


def pool_name_of(url: str) -> str | None:
    """The backend of a link by its host, or by a parent domain: `us02web.zoom.us` is Zoom."""
    labels = (host_of(url) or "").rstrip(".").lower().split(".")
    for start in range(len(labels) - 1):
        if (pool_name := _HOSTS.get(".".join(labels[start:]))) is not None:
            return pool_name
    return None
