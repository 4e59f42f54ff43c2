"""Which hosts of meeting links a pool accepts: `pools.<platform>.allowed_hosts`.

A bot opens its meeting link from inside the network of its container. A link to a private address
would let every holder of a key read services of that network through a bot, such as the metadata
service of a cloud. Hosts are compared as a browser reads them: `2130706433`, `0x7f.1` and
`[::ffff:127.0.0.1]` are all 127.0.0.1. Names are not resolved: docs/decisions/0040.
"""

import re
import socket
import unicodedata
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import urlsplit

PUBLIC = "*"
"""The pattern of every public host, which is the default."""

_NAME = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*", re.ASCII)
_PATTERN_NAME = re.compile(r"(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PRIVATE_DOMAINS = ("localhost", "local", "internal", "intranet", "lan", "localdomain", "home.arpa")
_METADATA = frozenset({IPv4Address("168.63.129.16"), IPv4Address("192.0.0.192")})
"""The metadata services of Azure and Oracle; those of other clouds have private addresses."""
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")

Host = IPv4Address | IPv6Address | str


def is_allowed(url: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns covers the host of the link."""
    host = meeting_host(url)
    return host is not None and any(_matches(host, pattern) for pattern in patterns)


def meeting_host(url: str) -> Host | None:
    """Return the host of a link as a browser reads it; None if browsers could read another one."""
    try:
        parts = urlsplit(url)
        name = parts.hostname or ""
    except ValueError:
        return None
    if "\\" in parts.netloc or "%" in name:
        return None
    if ":" in name:
        return _ipv6(name)
    ascii_name = _to_ascii(name)
    if ascii_name is None or not _NAME.fullmatch(ascii_name):
        return None
    if _NUMBER.fullmatch(ascii_name.rpartition(".")[2]):
        return _ipv4(ascii_name)
    return ascii_name


def is_public(host: Host) -> bool:
    """Whether the host can be on the public internet, as far as its spelling tells."""
    if isinstance(host, str):
        return "." in host and not host.endswith(tuple(f".{name}" for name in _PRIVATE_DOMAINS))
    if isinstance(host, IPv6Address):
        embedded = _embedded_ipv4(host)
        if embedded is not None:
            return is_public(embedded)
        if host.is_site_local:
            return False
    is_special = host.is_multicast or host.is_reserved or host in _METADATA
    return host.is_global and not is_special


def check_pattern(pattern: str) -> str:
    """Return the pattern in lower case. Raises ValueError if it can match no host."""
    pattern = pattern.lower()
    if pattern == PUBLIC or _network(pattern):
        return pattern
    if _PATTERN_NAME.fullmatch(pattern.removesuffix(".")):
        return pattern.removesuffix(".")
    raise ValueError(
        "should be hosts such as meet.example.org, *.example.org, 10.1.2.3, 10.0.0.0/8 or *"
    )


def _matches(host: Host, pattern: str) -> bool:
    if pattern == PUBLIC:
        return is_public(host)
    if not isinstance(host, str):
        network = _network(pattern)
        return network is not None and host in network
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def _network(pattern: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(pattern, strict=False)
    except ValueError:
        return None


def _to_ascii(name: str) -> str | None:
    """Return the name as DNS gets it: browsers map full-width digits and dots to plain ones."""
    name = unicodedata.normalize("NFKC", name).replace("\u3002", ".").lower()
    name = name.removesuffix(".")
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return None


def _ipv4(name: str) -> IPv4Address | None:
    """Parse 1 to 4 decimal, octal or hexadecimal numbers, as browsers and the C library do."""
    try:
        return IPv4Address(socket.inet_aton(name))
    except OSError:
        return None


def _ipv6(name: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(name)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _embedded_ipv4(host: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that the network would reach through this IPv6 address."""
    if host.sixtofour is not None:
        return host.sixtofour
    if host.teredo is not None:
        return host.teredo[1]
    if host in _NAT64 or host in _COMPATIBLE:
        return IPv4Address(int(host) & 0xFFFF_FFFF)
    return None
