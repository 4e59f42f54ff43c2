"""Knows which applications belong to this installation: those with its tag."""

import asyncio
import re
import secrets
from collections.abc import Sequence

from botpool.backends.coolify import error_messages
from botpool.backends.coolify.api import Api
from botpool.backends.coolify.responses import Application
from botpool.domain.errors import BackendUnavailable, ContainerGone
from botpool.domain.ids import ContainerId

_UUID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Ownership:
    """Remembers the applications that were listed as ours, so that most calls need no list."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._known: set[ContainerId] = set()
        self._filter_is_verified = False
        self._verifying = asyncio.Lock()

    async def list(self, api: Api) -> Sequence[Application]:
        """Return all our applications with one request."""
        found = await api.list_tagged(self.tag)
        if found and not self._filter_is_verified:
            async with self._verifying:
                await self._verify_filter(api)
        self._known.update(application.uuid for application in found)
        return found

    async def _verify_filter(self, api: Api) -> None:
        """Refuse a Coolify that ignores the tag filter and lists all applications.

        Called only if the list has entries: an empty list proves nothing.
        """
        if self._filter_is_verified:
            return
        await api.reserve_more(1)
        if await api.list_tagged(f"unused-{secrets.token_hex(8)}"):
            raise error_messages.no_tag_filter()
        self._filter_is_verified = True

    def add(self, uuid: ContainerId) -> None:
        self._known.add(uuid)

    async def require(self, api: Api, uuid: ContainerId) -> None:
        """Raise ContainerGone if Coolify says that the application does not exist.

        An application that exists but is not in our list may be foreign, may have lost its tag, or
        the list may be wrong. Botpool neither touches it nor treats it as gone.
        """
        if not _UUID.fullmatch(uuid):
            raise ContainerGone(uuid)
        if uuid in self._known:
            return
        await api.reserve_more(2)
        await self.list(api)
        if uuid not in self._known:
            await api.application(uuid)
            raise BackendUnavailable(f"application {uuid} exists, but lacks Botpool's tag")

    async def find_unlisted(self, api: Api, uuid: ContainerId) -> Application | None:
        """Return an application that our list lacks, or None if Coolify says that it is gone."""
        if not _UUID.fullmatch(uuid):
            return None
        await api.reserve_more(1)
        try:
            return await api.application(uuid)
        except ContainerGone:
            self._known.discard(uuid)
            return None

    def is_ours(self, uuid: ContainerId) -> bool:
        """Whether the application was ever listed as ours."""
        return uuid in self._known
