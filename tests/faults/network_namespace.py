"""A network namespace in which packets can be dropped without a word, for a replica."""

import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.support.components import missing


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkNamespace:
    """A namespace with one link to the test; both ends have an address."""

    name: str
    inside: str
    outside: str

    @property
    def command(self) -> Sequence[str]:
        """The prefix of a command that runs in the namespace."""
        return ("ip", "netns", "exec", self.name)

    def drop_packets(self, port: int, *, share: float = 1.0) -> None:
        """Drop that share of the packets to and from a port of the test, in both directions."""
        chance = ["-m", "statistic", "--mode", "random", "--probability", f"{share:.2f}"]
        for chain, end in (("OUTPUT", "--dport"), ("INPUT", "--sport")):
            match = ["-p", "tcp", end, str(port), *(chance if share < 1 else ())]
            _run(*self.command, "iptables", "-A", chain, *match, "-j", "DROP")

    def pass_packets(self) -> None:
        """Drop no packets any more."""
        _run(*self.command, "iptables", "-F")


@contextmanager
def network_namespace() -> Iterator[NetworkNamespace]:
    """Create a namespace, and remove it at the end."""
    token = secrets.token_hex(3)
    name, link = f"botpool-{token}", f"bp{token}"
    third = int(token[:2], 16)
    namespace = NetworkNamespace(name=name, inside=f"10.213.{third}.2", outside=f"10.213.{third}.1")
    try:
        _run("ip", "netns", "add", name)
        _run(*namespace.command, "iptables", "-L")
    except (OSError, subprocess.CalledProcessError) as error:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
        missing("a network namespace", f"needs root, iproute2 and iptables: {error}")
    try:
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "up0", "netns", name)
        _run("ip", "addr", "add", f"{namespace.outside}/30", "dev", link)
        _run("ip", "link", "set", link, "up")
        _run(*namespace.command, "ip", "addr", "add", f"{namespace.inside}/30", "dev", "up0")
        _run(*namespace.command, "ip", "link", "set", "up0", "up")
        _run(*namespace.command, "ip", "link", "set", "lo", "up")
        yield namespace
    finally:
        _run("ip", "netns", "del", name)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
