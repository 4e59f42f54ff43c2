"""A change is serialized once for all streams."""

from datetime import UTC, datetime

import pytest

from botpool.api import stream
from botpool.domain.history import Change
from botpool.engine.stream.subscriptions import Batch, Subscription

STREAMS = 50


def change(number: int) -> Change:
    return Change(
        id=number,
        transaction=number,
        at=datetime(2026, 1, 5, 10, tzinfo=UTC),
        kind="slot.status",
        pool_name="zoom",
        bot_id=7,
        slot_id=3,
        slot_name="pool-zoom-003",
        from_state="deploying",
        to_state="busy",
        reason="observed running",
        correlation_id="c",
        data=None,
    )


async def test_streams_share_serialized_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    write = stream._encode_event

    def counted(*arguments: object) -> bytes:
        written.append(arguments)
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stream, "_encode_event", counted)
    batch = Batch(epoch=1, since=1, until=9, changes=tuple(map(change, range(1, 4))))
    sent = []
    for _ in range(STREAMS):
        subscription = Subscription(9, lambda _: None, epoch=1)
        subscription.put(batch, horizon=9)
        events = stream._stream_events(subscription, still_valid)
        await anext(events)
        sent.append(await anext(events))
        await events.aclose()  # type: ignore[attr-defined]
    assert len(written) == 3
    assert set(sent) == {sent[0]}
    assert sent[0].count(b"event: change") == 3


async def still_valid() -> bool:
    return True
