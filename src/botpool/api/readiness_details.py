"""Readiness for callers without a key: the setting at fault and the kind of failure."""

import re

_SECTIONS = "backends|bots|database|deploy|installation|pools|queue|recovery|retention|server"
_SETTING = re.compile(rf"\b(?:{_SECTIONS})\.[a-z_.-]+[a-z_]")
_ADDRESSES = re.compile(
    rf"""
      \w+://\S+                                    # a URL
    | "[^"]*" | '[^']*'                            # quoted names of hosts, users and files
    | \bport\ \d+
    | \[?[0-9a-f]*(?::[0-9a-f]*){{2,}}\]?(?::\d+)?   # IPv6
    | (?<![\w.-])(?!(?:{_SECTIONS})\.)[\w-]+(?:\.[\w-]+)+(?::\d+)?   # a host name or IPv4
    | \b[A-Za-z][\w-]*:\d+\b                        # a host and a port
    | (?<![\w/])/[\w.@/-]+                         # a path
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HIDDEN = "…"


def public_detail(detail: str, *, setting: str | None) -> str:
    """Remove addresses from the description of a failure.

    `setting` names the part at fault if the description itself names no setting.
    """
    shown = " ".join(_ADDRESSES.sub(_HIDDEN, detail).split())
    return shown if setting is None or _SETTING.search(shown) else f"{setting}: {shown}"
