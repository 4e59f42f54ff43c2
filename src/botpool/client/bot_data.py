"""The client's calls for the data that is kept with a bot."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from botpool.client.connection import TIMEOUT_S, Connection, Response
from botpool.client.records import Artifact, Command, Page, Screenshot

T = TypeVar("T")


class BotDataCalls:
    """Artifacts, screenshots and commands of bots. `Client` inherits these calls."""

    _connection: Connection

    def artifacts(self, bot_id: int) -> list[Artifact]:
        """The files that a bot made, in the bot's order."""
        return self._list(Artifact, f"/v1/bots/{bot_id}/artifacts", "artifacts")

    def screenshots(self, bot_id: int) -> list[Screenshot]:
        """The last three screenshots of a bot, oldest first, without the pictures."""
        return self._list(Screenshot, f"/v1/bots/{bot_id}/screenshots", "screenshots")

    def screenshot(self, bot_id: int, number: int) -> bytes:
        """The picture of a screenshot."""
        path = f"/v1/bots/{bot_id}/screenshots/{number}"
        with self._connection.stream(path, read_timeout_s=TIMEOUT_S) as response:
            return b"".join(response.iter_bytes())

    def command(self, bot_id: int, kind: str, data: Mapping[str, Any] | None = None) -> Command:
        """Send a command to a bot, such as `chat`; its next heartbeat receives it."""
        response = self._request(
            "POST",
            f"/v1/bots/{bot_id}/commands",
            content=json.dumps({"kind": kind, "data": dict(data or {})}).encode("ascii"),
            headers={"Content-Type": "application/json"},
            repeatable=False,
        )
        return response.parse_record(Command, "command")

    def commands_page(
        self, bot_id: int, *, limit: int = 200, cursor: str | None = None
    ) -> Page[Command]:
        """A page of the commands to a bot with their states, oldest first."""
        path = f"/v1/bots/{bot_id}/commands"
        return self._page(Command, path, "commands", limit=limit, cursor=cursor)

    def _request(self, method: str, path: str, **request: Any) -> Response:
        raise NotImplementedError

    def _list(self, kind: type[T], path: str, part: str, **params: Any) -> list[T]:
        raise NotImplementedError

    def _page(self, kind: type[T], path: str, part: str, **params: Any) -> Page[T]:
        raise NotImplementedError
