"""Traces: spans from history, sent at least once and with the same ids."""

from collections.abc import Sequence
from dataclasses import replace

import psycopg
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from botpool.domain.ids import BotId
from botpool.domain.states import BotStatus
from botpool.domain.trace_spans import Span
from botpool.engine.replica import Replica
from botpool.engine.tracing.otlp import OtlpExporter
from botpool.engine.tracing.span_writer import LEASE_S, SpanWriter
from tests.support.replicas import Stage, bot_request, pool

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HEADER = f"00-{TRACE}-00f067aa0ba902b7-01"
PHASES = {
    "bot", "queued", "attempt 1", "deploying", "joining", "waiting_room", "in_call", "finishing",
    "release",
}  # fmt: skip


class Collector:
    """Keeps the spans that it is sent, unless it is away."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.is_away = False

    async def export(self, spans: Sequence[Span]) -> str | None:
        if self.is_away:
            return "away"
        self.spans += spans
        return None

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]


def writer_of(
    replica: Replica, collector: Collector, owner: str = "a", batch: int = 500
) -> SpanWriter:
    return SpanWriter(
        database=replica.database,
        metrics=replica.metrics,
        owner=owner,
        export=collector.export,
        batch=batch,
    )


async def run_to_end(stage: Stage, replica: Replica, traceparent: str | None = HEADER) -> BotId:
    request = replace(bot_request(), traceparent=traceparent)
    bot_id = (await replica.admission.admit(request)).bot.id
    await stage.settle(replica)
    assignment = stage.slot_of(bot_id)["assignment_id"]
    for status in (BotStatus.IN_WAITING_ROOM, BotStatus.IN_CALL, BotStatus.CALL_ENDED):
        await replica.agents.report(assignment, bot_id, status, None)
    await stage.end(replica, bot_id)
    await stage.settle(replica)
    return bot_id


async def test_bot_is_one_trace_with_a_span_for_each_phase(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    writer = writer_of(replica, collector)
    assert not await writer.write()
    bot_id = await run_to_end(stage, replica)
    assert await writer.write()
    assert set(collector.names) >= PHASES
    assert {span.trace_id for span in collector.spans} == {TRACE}
    assert {span.attributes["botpool.bot_id"] for span in collector.spans} == {bot_id}
    assert len(collector.names) == len({span.span_id for span in collector.spans})
    assert not await writer.write(), "nothing is sent twice"


async def test_span_is_written_when_its_phase_has_ended(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    writer = writer_of(replica, collector)
    await writer.write()
    request = replace(bot_request(), traceparent=HEADER)
    bot_id = (await replica.admission.admit(request)).bot.id
    await writer.write()
    assert collector.names == ["queued"]
    await stage.settle(replica)
    await writer.write()
    assert collector.names[-1] == "deploying"
    assignment = stage.slot_of(bot_id)["assignment_id"]
    await replica.agents.report(assignment, bot_id, BotStatus.IN_CALL, None)
    await writer.write()
    assert collector.names[-1] == "joining"


async def test_small_batches_write_the_same_spans(stage: Stage) -> None:
    replica, whole, parts = await stage.replica(pool(2)), Collector(), Collector()
    await writer_of(replica, whole).write()
    for _ in range(2):
        await run_to_end(stage, replica, None)
    (cursor,) = stage.rows("SELECT cursor_xid::text FROM trace_cursor")
    await writer_of(replica, whole).write()
    with psycopg.connect(stage.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE trace_cursor SET cursor_xid = %s::xid8, cursor_id = 0", list(cursor.values())
        )
    await writer_of(replica, parts, batch=3).write()
    assert {span.span_id for span in parts.spans} == {span.span_id for span in whole.spans}
    assert len(parts.spans) == len(whole.spans)
    assert len({span.trace_id for span in whole.spans}) == 2


async def test_dead_collector_delays_spans_and_nothing_else(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    writer = writer_of(replica, collector)
    await writer.write()
    collector.is_away = True
    bot_id = await run_to_end(stage, replica)
    assert not await writer.write()
    assert stage.statuses(bot_id) == ["DONE"]
    collector.is_away = False
    assert not await writer.write(), "the lease is the pause between attempts"
    stage.clock.move(LEASE_S + 1)
    assert await writer.write()
    assert set(collector.names) >= PHASES


async def test_replica_that_dies_after_sending_sends_again_with_the_same_ids(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    await writer_of(replica, collector).write()
    await run_to_end(stage, replica)

    async def send_and_die(spans: Sequence[Span]) -> str | None:
        await collector.export(spans)
        raise ConnectionResetError

    dying = writer_of(replica, collector, owner="dying")
    dying.export = send_and_die
    try:
        await dying.write()
    except ConnectionResetError:
        first = [span.span_id for span in collector.spans]
    other = writer_of(replica, collector, owner="other")
    assert not await other.write()
    stage.clock.move(LEASE_S + 1)
    assert await other.write()
    assert [span.span_id for span in collector.spans] == first + first


async def test_late_replica_does_not_move_the_cursor_of_another(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    await writer_of(replica, collector).write()
    await run_to_end(stage, replica)
    other = writer_of(replica, collector, owner="other")

    async def pause(spans: Sequence[Span]) -> str | None:
        stage.clock.move(LEASE_S + 1)
        await other.write()
        return None

    late = writer_of(replica, collector, owner="late")
    late.export = pause
    assert not await late.write()
    sent = len(collector.spans)
    assert not await writer_of(replica, collector).write()
    assert len(collector.spans) == sent


async def test_old_spans_are_dropped_after_a_long_outage(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    writer = writer_of(replica, collector)
    await writer.write()
    await run_to_end(stage, replica)
    stage.clock.move(2 * 3600)
    assert await writer.write()
    assert collector.spans == []
    await run_to_end(stage, replica)
    await writer.write()
    assert set(collector.names) >= PHASES


async def test_bot_of_a_trace_that_is_not_sampled_has_no_spans(stage: Stage) -> None:
    replica, collector = await stage.replica(pool(1)), Collector()
    writer = writer_of(replica, collector)
    await writer.write()
    await run_to_end(stage, replica, f"00-{TRACE}-00f067aa0ba902b7-00")
    await writer.write()
    assert collector.spans == []


async def test_spans_of_the_sdk_have_parents_links_and_status(stage: Stage) -> None:
    replica, memory = await stage.replica(pool(1)), InMemorySpanExporter()
    exporter = OtlpExporter("http://unused", attributes={}, exporter=memory)
    writer = replace_export(writer_of(replica, Collector()), exporter)
    await writer.write()
    await run_to_end(stage, replica)
    await writer.write()
    found = {span.name: span for span in memory.get_finished_spans()}
    root, attempt = found["bot"], found["attempt 1"]
    assert f"{root.context.trace_id:032x}" == TRACE
    assert root.parent is not None and f"{root.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert attempt.parent is not None and attempt.parent.span_id == root.context.span_id
    assert root.resource.attributes["service.name"] == "botpool"
    assert found["in_call"].end_time >= found["in_call"].start_time
    await exporter.close()


def replace_export(writer: SpanWriter, exporter: OtlpExporter) -> SpanWriter:
    writer.export = exporter.export
    return writer
