"""One bot as one trace: from a request with `traceparent` to a collector of OTLP over HTTP."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from botpool import Client
from tests.support.http_server import served
from tests.support.postgres import TestPostgres
from tests.support.trace_collector import collecting
from tests.support.trace_picture import trace_svg

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
LINK = "https://meet.google.com/abc-defg-hij"
PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "trace.svg"
PATIENCE_S = 120
PROGRAM = """
import asyncio, os
from botpool.agent import Agent

async def main():
    async with Agent.from_environment() as agent:
        print("TRACEPARENT", os.environ["TRACEPARENT"], flush=True)
        for status in ("JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED"):
            await agent.report(status)
            await asyncio.sleep(0.4)

asyncio.run(main())
"""


@pytest.fixture
def url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


def test_queued_bot_is_one_trace_with_all_its_phases(url: str, tmp_path: Path) -> None:
    program = tmp_path / "bot.py"
    program.write_text(PROGRAM)
    with (
        collecting() as collector,
        served(
            url,
            tmp_path,
            max_size=1,
            BOTPOOL_BACKENDS__PROCESS__COMMAND=f"{sys.executable} {program}",
            BOTPOOL_BACKENDS__PROCESS__START_S="0.4",
            BOTPOOL_TRACING__ENDPOINT=collector.url,
        ) as server,
        Client(server.url, server.new_key("operator")) as botpool,
    ):
        first = botpool.create(LINK)
        second = botpool.create(LINK, traceparent=f"00-{TRACE}-{SPAN}-01")
        assert second.correlation_id == TRACE, "log lines without more have the trace id"
        botpool.wait(second.id, timeout_s=PATIENCE_S)
        spans = collector.wait_for("attempt 1", TRACE, PATIENCE_S)
        own = collector.wait_for("bot", first.correlation_id, PATIENCE_S)
        output = b"".join(botpool.logs(second.id)).decode()
        log = (tmp_path / "server.log").read_text()
    by_name = {span.name: span for span in spans}
    assert [span.name for span in spans] == [
        "bot", "queued", "attempt 1", "deploying", "creating", "starting", "joining",
        "waiting_room", "in_call", "finishing", "release",
    ]  # fmt: skip
    root = by_name["bot"]
    assert root.parent_span_id.hex() == SPAN
    assert f"TRACEPARENT 00-{TRACE}-{root.span_id.hex()}-01" in output
    assert by_name["in_call"].parent_span_id == by_name["attempt 1"].span_id
    assert by_name["creating"].parent_span_id == by_name["deploying"].span_id
    assert not next(span for span in own if span.name == "bot").parent_span_id
    lines = [json.loads(line) for line in log.splitlines() if TRACE in line]
    assert {line["correlation_id"] for line in lines} == {TRACE}
    traced = {line["event"] for line in lines if line.get("trace_id") == TRACE}
    assert traced, lines
    if os.environ.get("BOTPOOL_KEEP_PICTURES"):
        PICTURE.write_text(trace_svg(spans, f"Trace {TRACE}: bot {second.id}"))


def test_dead_collector_affects_no_bot(url: str, tmp_path: Path) -> None:
    settings = {
        "BOTPOOL_BACKENDS__PROCESS__COMMAND": f"{sys.executable} -m botpool.agent.demo",
        "BOTPOOL_TRACING__ENDPOINT": "http://127.0.0.1:9",
    }
    with (
        served(url, tmp_path, max_size=1, **settings) as server,
        Client(server.url, server.new_key("operator")) as botpool,
    ):
        bot = botpool.create(LINK, bot_data={"joinSeconds": 0, "staySeconds": 0})
        assert botpool.wait(bot.id, timeout_s=PATIENCE_S).status == "DONE"


def test_picture_shows_every_span_below_its_parent() -> None:
    text = PICTURE.read_text()
    assert text.count("<rect class") == 12, "the background and eleven spans"
    for name in ("bot", "queued", "attempt 1", "deploying", "waiting_room", "in_call", "release"):
        assert f">{name}</text>" in text
