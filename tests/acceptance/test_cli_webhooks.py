"""`botpool webhook` against a running server and a receiver."""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from tests.acceptance.test_cli import Ran, run
from tests.support.http_server import served
from tests.support.postgres import TestPostgres
from tests.support.webhook_receiver import receiving


async def test_commands_manage_a_webhook(
    postgres: TestPostgres, template: str, tmp_path: Path
) -> None:
    url = postgres.create_database(template)
    settings = {"BOTPOOL_WEBHOOKS__ALLOW_PRIVATE_ADDRESSES": "true"}
    stack = ExitStack()
    try:
        server = await asyncio.to_thread(
            lambda: stack.enter_context(served(url, tmp_path, max_size=0, **settings))
        )
        key = await asyncio.to_thread(server.new_key, "operator")
        env = {"BOTPOOL_URL": server.url, "BOTPOOL_API_KEY": key}

        async def botpool(*arguments: str) -> Ran:
            return await asyncio.to_thread(lambda: run("webhook", *arguments, env=env))

        async with receiving() as receiver:
            assert "There is no webhook." in (await botpool("list")).out
            made = await botpool("create", receiver.url, "--event", "bot.done")
            assert made.err == "botpool: Webhook 1 is created. Its secret is shown only now:\n"
            secret = made.out.strip()
            tested = await botpool("test", "1")
            assert tested.out.startswith("Webhook 1 answered 204 to bot.done after "), tested
            (request,) = receiver.requests
            Verifier(secret).verify(request.body, dict(request.headers))
            receiver.answer = lambda _: 500
            failed = await botpool("test", "1", "--event", "bot.failed")
            assert failed.code == 1
            assert (
                failed.error_line() == "botpool: Webhook 1 did not take the test: answered 500.\n"
            )
            listed = await botpool("list")
            assert "active" in listed.out and max(map(len, listed.out.splitlines())) <= 80
            shown = await botpool("deliveries", "1", "--status", "failed")
            assert "bot.failed" in shown.out and "answered 500" in shown.out
            both = json.loads((await botpool("deliveries", "1", "--json")).out)["deliveries"]
            assert [each["status"] for each in both] == ["failed", "delivered"]
            rotated = await botpool("rotate", "1", "--overlap", "60")
            assert rotated.out.startswith("whsec_")
            assert (await botpool("replay", "1")).out.startswith("Webhook 1 is enabled")
            since = await botpool("replay", "1", "--since", "2026-01-05")
            assert "all events since 2026-01-05" in since.out
            assert (await botpool("delete", "1")).out == "Webhook 1 is deleted.\n"
        for arguments, code, words in (
            (("create", "ftp://x"), 2, "url"),
            (("create", "https://example.org", "--event", "bot.sings"), 2, "events"),
            (("replay", "1", "--since", "soon"), 2, "not a time"),
            (("replay", "1", "--since", "2026-01-05", "--event", "evt_1"), 2, "give one of them"),
            (("test", "1"), 1, "There is no webhook 1."),
        ):
            refused = await botpool(*arguments)
            assert (refused.code, words in refused.err) == (code, True), refused
    finally:
        # In a thread: the end of the server runs an event loop of its own.
        await asyncio.to_thread(stack.close)
    postgres.drop_database(url)


@pytest.mark.parametrize("command", ["create", "test", "deliveries", "replay", "rotate", "delete"])
def test_help_has_an_example(command: str) -> None:
    assert f"botpool webhook {command}" in run("webhook", command, "--help").out
