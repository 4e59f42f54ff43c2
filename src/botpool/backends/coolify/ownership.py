"""Which applications are ours: those with the installation's tag, and no others."""

import asyncio
import re
import secrets
from collections.abc import Sequence

from botpool.backends.coolify import refusals
from botpool.backends.coolify.answers import Application
from botpool.backends.coolify.api import Api
from botpool.domain.errors import BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId

_UUID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Ownership:
    """Remembers what it has seen to be ours, so that not every call needs a list before it."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._known: set[ContainerId] = set()
        self._filter_is_proven = False
        self._proving = asyncio.Lock()

    async def list(self, api: Api) -> Sequence[Application]:
        """All of ours, in one request."""
        found = await api.list_tagged(self.tag)
        if found and not self._filter_is_proven:
            async with self._proving:
                await self._prove_filter(api)
        self._known.update(application.uuid for application in found)
        return found

    async def _prove_filter(self, api: Api) -> None:
        """A Coolify that does not know the filter lists everybody's: then nothing is believed.

        Asked only when there is something to list, for otherwise no answer would prove anything.
        """
        if self._filter_is_proven:
            return
        await api.pay_more(1)
        if await api.list_tagged(f"nobody-{secrets.token_hex(8)}"):
            raise refusals.no_tags()
        self._filter_is_proven = True

    def add(self, uuid: ContainerId) -> None:
        self._known.add(uuid)

    async def require(self, api: Api, uuid: ContainerId) -> None:
        """ContainerGone if Coolify says that it does not exist.

        One that exists and that the list of ours lacks may be another's, may have lost its tag, or
        the list may be wrong: it is not touched, and not taken for gone.
        """
        if not _UUID.fullmatch(uuid):
            raise ContainerGone(uuid)
        if uuid in self._known:
            return
        await api.pay_more(2)
        await self.list(api)
        if uuid not in self._known:
            await api.application(uuid)
            raise BackendUnavailable(f"application {uuid} exists, but does not carry our tag")

    async def find_unlisted(self, api: Api, uuid: ContainerId) -> Application | None:
        """One that the list of ours lacks; None if Coolify itself says that it is gone."""
        if not _UUID.fullmatch(uuid):
            return None
        await api.pay_more(1)
        try:
            return await api.application(uuid)
        except ContainerGone:
            self._known.discard(uuid)
            return None

    def is_ours(self, uuid: ContainerId) -> bool:
        """Whether it was ever listed as ours."""
        return uuid in self._known
