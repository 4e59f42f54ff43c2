"""Botpool's HTTP API, as the command line calls it: every call bounded, every answer judged."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import httpx

from botpool.cli import answers, shapes
from botpool.cli.answers import Answer
from botpool.cli.connection import Target
from botpool.cli.errors import KeyRefused, ServerSilent, ServerUnreachable
from botpool.client.connection import Connection
from botpool.client.errors import Unauthorized
from botpool.client.records import Change, Reset
from botpool.client.stream import ChangeStream, OnState
from botpool.domain.errors import NotFound

T = TypeVar("T")
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_FOLLOWING = httpx.Timeout(30.0, connect=5.0, read=None)


class Client:
    """One server and one key. Errors come as the command line's own, ready to be said."""

    def __init__(self, target: Target, *, transport: httpx.BaseTransport | None = None) -> None:
        self._target = target
        self._transport = transport
        self._http = httpx.Client(
            base_url=target.url,
            headers={"Authorization": f"Bearer {target.key}", "Accept": "application/json"},
            timeout=_TIMEOUT,
            # A proxy for the outside world must not stand between this machine and itself.
            trust_env=not target.local,
            transport=transport,
        )

    @property
    def url(self) -> str:
        return self._target.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def create_bot(
        self, wanted: Mapping[str, Any], idempotency_key: str | None = None
    ) -> Answer[shapes.BotAnswer]:
        headers = {"Content-Type": "application/json"}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        # In ASCII: whatever Unicode the data holds, the server judges it, not our encoder.
        body = json.dumps(wanted).encode()
        return self._ask("POST", "/v1/bots", shapes.BotAnswer, content=body, headers=headers)

    def bots(self, **filters: str | int | None) -> Answer[shapes.BotPage]:
        return self._ask("GET", "/v1/bots", shapes.BotPage, params=_given(filters))

    def bot(self, bot_id: int) -> Answer[shapes.BotAnswer]:
        return self._ask("GET", f"/v1/bots/{bot_id}", shapes.BotAnswer)

    def stop_bot(self, bot_id: int) -> Answer[shapes.BotAnswer]:
        return self._ask("DELETE", f"/v1/bots/{bot_id}", shapes.BotAnswer)

    def bot_events(self, bot_id: int) -> Answer[shapes.Events]:
        return self._ask("GET", f"/v1/bots/{bot_id}/events", shapes.Events)

    def queue(self, platform: str | None = None) -> Answer[shapes.Queue]:
        return self._ask("GET", "/v1/queue", shapes.Queue, params=_given({"platform": platform}))

    def slots(self, **filters: str | None) -> Answer[shapes.Slots]:
        return self._ask("GET", "/v1/slots", shapes.Slots, params=_given(filters))

    def slot(self, slot_id: int) -> Answer[shapes.SlotAnswer]:
        return self._ask("GET", f"/v1/slots/{slot_id}", shapes.SlotAnswer)

    def slot_history(self, slot_id: int) -> Answer[shapes.SlotHistory]:
        return self._ask("GET", f"/v1/slots/{slot_id}/history", shapes.SlotHistory)

    def change_slot(self, slot_id: int, verb: str) -> Answer[shapes.SlotAnswer]:
        return self._ask("POST", f"/v1/slots/{slot_id}/{verb}", shapes.SlotAnswer)

    def delete_slot(self, slot_id: int, *, force: bool = False) -> Answer[shapes.SlotAnswer]:
        params = _given({"force": "true" if force else None})
        return self._ask("DELETE", f"/v1/slots/{slot_id}", shapes.SlotAnswer, params=params)

    def recover(self) -> Answer[shapes.Recovered]:
        return self._ask("POST", "/v1/maintenance/recover", shapes.Recovered)

    def pools(self) -> Answer[shapes.Pools]:
        return self._ask("GET", "/v1/pools", shapes.Pools)

    def pool(self, platform: str) -> Answer[shapes.PoolAnswer]:
        return self._ask("GET", _pool(platform), shapes.PoolAnswer)

    def change_pool(self, platform: str, verb: str) -> Answer[shapes.PoolAnswer]:
        return self._ask("POST", f"{_pool(platform)}/{verb}", shapes.PoolAnswer)

    @contextmanager
    def bot_logs(self, bot_id: int, *, tail: int | None, follow: bool) -> Iterator[Iterator[bytes]]:
        """The output as it comes. A followed container may be quiet for as long as it likes."""
        params = _given({"tail": tail, "follow": "true" if follow else None})
        timeout = _FOLLOWING if follow else _TIMEOUT
        path = f"/v1/bots/{bot_id}/logs"
        with (
            self._outcome(),
            self._http.stream("GET", path, params=params, timeout=timeout) as response,
        ):
            if not response.is_success:
                response.read()
                answers.refuse(response, self._target)
            yield response.iter_bytes()

    def changes(self, on_state: OnState) -> Iterator[Change | Reset]:
        """The stream, on a connection of its own: it is read beside all other calls."""
        connection = Connection(self._target.url, self._target.key, self._transport)
        try:
            yield from ChangeStream(connection=connection, on_state=on_state)
        except Unauthorized:
            raise KeyRefused(self.url, self._target.key_from) from None
        finally:
            connection.close()

    def _ask(self, method: str, path: str, shape: type[T], **request: Any) -> Answer[T]:
        with self._outcome():
            response = self._http.request(method, path, **request)
        return answers.read(response, shape, self._target)

    @contextmanager
    def _outcome(self) -> Iterator[None]:
        """What can happen to a request on its way."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise ServerUnreachable(self.url, "no connection within 5 s") from None
        except httpx.ConnectError as error:
            raise ServerUnreachable(self.url, _reason(error)) from None
        except httpx.TimeoutException:
            raise ServerSilent(self.url, "none within 30 s") from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise ServerSilent(self.url, _reason(error)) from None


def _pool(platform: str) -> str:
    """The path of a pool. What cannot be a name must not become another path."""
    if not re.fullmatch(r"[A-Za-z0-9-]+", platform):
        raise NotFound("pool", repr(platform))
    return f"/v1/pools/{platform}"


def _given(parameters: Mapping[str, str | int | None]) -> dict[str, str | int]:
    return {name: value for name, value in parameters.items() if value is not None}


def _reason(error: Exception) -> str:
    """The system's own word where there is one: httpx wraps it twice."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
