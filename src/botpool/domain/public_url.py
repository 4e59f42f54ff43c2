"""Checks the addresses that replicas hand out to containers."""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit


def address_problems(own: str, others: Collection[str], backends: Collection[str]) -> list[str]:
    """Return why containers may not reach a replica at its address, as sentences.

    `own` is the address of this replica, `others` are those of the other live replicas.
    """
    problems = []
    remote = sorted(set(backends) - {"process"})
    if remote and _is_loopback(own):
        problems.append(
            f"server.public_url is {own}, which reaches only programs on this machine. Containers "
            f"of {', '.join(remote)} need an address that they can reach."
        )
    if different := sorted(set(others) - {own}):
        problems.append(
            f"This replica hands out {own}, and other replicas hand out {', '.join(different)}. "
            "Set server.public_url of all replicas to one address that reaches all of them: else "
            "containers cannot call when their replica is down."
        )
    return problems


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
