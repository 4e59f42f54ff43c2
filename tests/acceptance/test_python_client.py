"""The Python client against a real server, and the examples of its page."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from botpool.client import Change, Client, NotFound, Unauthorized
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, installation

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-from-python.md"
LINK = "https://meet.google.com/abc-defg-hij"
SHORT = {"joinSeconds": 0, "staySeconds": 0}
PATIENCE_S = 150


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    url = postgres.create_database(template)
    async with installation(url, tmp_path_factory.mktemp("client")) as running:
        await running.serve()
        yield running
    postgres.drop_database(url)


def run(code: str, installed: Installation) -> str:
    """Run a program in a process of its own, with the two variables of the client."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"BOTPOOL_URL": installed.servers[-1].url, "BOTPOOL_API_KEY": installed.key},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_examples_of_the_page_run(installed: Installation) -> None:
    first, concurrent, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    watching = asyncio.create_task(asyncio.to_thread(run, second, installed))
    output = await asyncio.to_thread(run, first, installed)
    assert re.search(r"bot \d+ is in the call", output)
    assert re.search(r"bot \d+ ended (DONE|CANCELLED)", output)
    assert "bot.status JOINING_CALL -> IN_CALL" in output
    output = await asyncio.to_thread(run, concurrent, installed)
    assert len(re.findall(r"bot \d+ ended DONE after .*in_call", output)) == 3, output
    # The second example needs a bot that ends after its stream is connected.
    with Client(installed.servers[-1].url, installed.key) as botpool:
        while not watching.done():
            bot = botpool.create(LINK, bot_data=SHORT)
            await asyncio.to_thread(botpool.wait, bot.id, timeout_s=PATIENCE_S)
    assert re.search(r"\d+ bots have failed\nbot \d+ ended \w+: ", await watching)


async def test_bots_are_listed_in_pages_with_their_logs(installed: Installation) -> None:
    url = installed.servers[-1].url
    with Client(url, installed.key) as botpool:
        created = [botpool.create(LINK, display_name=f"Page {n}", bot_data=SHORT) for n in range(3)]
        again = botpool.create(LINK, display_name="Page x", idempotency_key="once")
        assert botpool.create(LINK, display_name="Page x", idempotency_key="once").id == again.id
        found = [bot.id for bot in botpool.bots(search="page ")]
        assert found == [again.id, *(bot.id for bot in reversed(created))]
        botpool.stop(again.id)
        for bot in created:
            ended = await asyncio.to_thread(botpool.wait, bot.id, timeout_s=PATIENCE_S)
            assert ended.status == "DONE"
        output = b"".join(botpool.logs(created[0].id, follow=True))
        assert output.endswith(b"done\n")
        assert b"".join(botpool.logs(created[0].id, tail=1)) == b"done\n"
        with pytest.raises(NotFound, match="no bot 9999"):
            botpool.get(9999)
    with Client(url, "bpk_wrong") as botpool, pytest.raises(Unauthorized):
        botpool.get(1)


async def test_changes_continue_after_a_cursor(installed: Installation) -> None:
    url = installed.servers[-1].url
    with Client(url, installed.key) as botpool:
        states: list[str | None] = []
        changes = botpool.changes(on_state=states.append)
        pending = asyncio.create_task(asyncio.to_thread(next, changes))
        while states != [None]:
            await asyncio.sleep(0.05)
        bot = await asyncio.to_thread(botpool.create, LINK, bot_data=SHORT)
        first = await pending
        assert isinstance(first, Change)
        await asyncio.to_thread(botpool.wait, bot.id, timeout_s=PATIENCE_S)
    with Client(url, installed.key) as botpool:
        after = botpool.changes(after=first.cursor)
        received = [first]
        while (received[-1].kind, received[-1].from_state) != ("slot.status", "releasing"):
            change = await asyncio.to_thread(next, after)
            assert isinstance(change, Change), "no reset"
            received.append(change)
    statuses = [each.to_state for each in received if each.kind == "bot.status"]
    assert statuses[0] == "PENDING"
    assert statuses[-1] == "DONE"
    assert len(statuses) == len(set(statuses)), "no change is received twice"
