"""Resolves the hosts of webhooks and refuses addresses that they may not reach.

The connection goes to the addresses that were checked: a name that resolves to another address a
moment later (DNS rebinding) changes nothing.
"""

import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from botpool.domain.webhooks import is_allowed_address


class AddressRefused(OSError):
    """A host has an address that webhooks may not reach."""


class CheckedResolver(AbstractResolver):
    """Resolves names, and refuses a name of which one address is not allowed."""

    def __init__(self, resolver: AbstractResolver | None = None, *, allow_private: bool) -> None:
        self._resolver = resolver or ThreadedResolver()
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            check_address(each["host"], allow_private=self._allow_private)
        return found

    async def close(self) -> None:
        await self._resolver.close()


def check_address(address: str, *, allow_private: bool) -> None:
    """Raise AddressRefused for an IP address that webhooks may not reach."""
    if not is_allowed_address(address, allow_private=allow_private):
        raise AddressRefused(
            f"its address {address} is not public, and webhooks.allow_private_addresses is off"
        )
