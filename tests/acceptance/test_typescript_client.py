"""The TypeScript client in Node, against a running Botpool; its examples run here."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_programs import ROOT, built_npm_client
from tests.support.components import missing
from tests.support.http_server import Server, served
from tests.support.postgres import TestPostgres

LIMIT_S = 300
PROGRAM = """
import { Botpool, BotEnded, Refused, Unreachable } from "botpool-client";

const botpool = new Botpool();
const check = (value, words) => { if (!value) throw new Error(words); };

const abort = new AbortController();
const seen = [];
const reading = (async () => {
  for await (const each of botpool.changes({ signal: abort.signal })) seen.push(each);
})();
await new Promise((resolve) => setTimeout(resolve, 500));

const key = { "Idempotency-Key": "once" };
const body = { meetingUrl: "https://meet.google.com/abc-defg-hij" };
const first = await botpool.createBot(body, key);
const again = await botpool.createBot(body, key);
check(first.bot.id === again.bot.id, "an idempotency key created two bots");
check(first.queuePosition === 1, "the bot is not queued");
const found = [];
for await (const bot of botpool.bots({ limit: 1 })) found.push(bot.id);
check(found.length === 1 && found[0] === first.bot.id, "the list of bots");
check((await botpool.queue()).queue[0].botId === first.bot.id, "the queue");
const refused = await botpool.createBot({ meetingUrl: "ftp://x" }).catch((error) => error);
check(refused instanceof Refused && refused.status === 422, "a bad link is accepted");
check("meetingUrl" in refused.fields, "the refusal does not name the field");
const missing = await botpool.getBot(999).catch((error) => error);
check(missing instanceof Refused && missing.status === 404, "an unknown bot is found");
await botpool.stopBot(first.bot.id);
check((await botpool.wait(first.bot.id)).status === "CANCELLED", "the bot did not end");
const ended = await botpool.wait(first.bot.id, { until: ["IN_CALL"] }).catch((error) => error);
check(ended instanceof BotEnded, "an ended bot is waited for");
check((await botpool.getPool("google-meet")).pool.maxSize === 0, "the pool");
check((await botpool.listSlots({ platform: "google-meet" })).slots.length === 0, "the slots");
const { tenant } = await botpool.createTenant({ name: "sales", maxLive: 2 });
check((await botpool.changeTenant("sales", { maxLive: null })).tenant.maxLive === null, "quota");
check(tenant.maxLive === 2 && (await botpool.listTenants()).tenants.length === 2, "the tenants");
const plan = (await botpool.planPool("google-meet", { replayMs: 3_600_000 })).plan;
check(plan.bots >= 0 && plan.platform === "google-meet", "the plan");
check((await botpool.drainPool("google-meet")).pool.drained, "the drained pool");
check((await botpool.listAudit({ action: "pool.drain" })).entries.length === 1, "the audit log");
const command = await botpool.sendCommand(first.bot.id, { kind: "chat" }).catch((error) => error);
check(command instanceof Refused && command.status === 409, "an ended bot takes a command");
const picture = await botpool.getScreenshot(first.bot.id, 1).catch((error) => error);
check(picture instanceof Refused && picture.status === 404, "a picture of a bot without pictures");
const nowhere = new Botpool({ url: "http://127.0.0.1:1", attempts: 2 });
const gone = await nowhere.listPools().catch((error) => error);
check(gone instanceof Unreachable, "a server that does not exist answers");
while (!seen.some((each) => each.to === "CANCELLED")) await new Promise((r) => setTimeout(r, 50));
abort.abort();
await reading;
console.log("all is well");
"""


@pytest.fixture
def url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


def run(server: Server, program: Path) -> str:
    node = shutil.which("node")
    if node is None:
        missing("Node", "install the package nodejs, 18 or later")
    environment = os.environ | {
        "BOTPOOL_URL": server.url,
        "BOTPOOL_API_KEY": server.new_key("admin"),
    }
    ran = subprocess.run(
        [node, program], env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return ran.stdout


def test_client_calls_a_running_botpool(url: str, tmp_path: Path) -> None:
    examples = built_npm_client()
    program = examples / "checks.mjs"
    program.write_text(PROGRAM)
    with served(url, tmp_path, max_size=0) as server:
        assert run(server, program) == "all is well\n"


def test_examples_run(url: str, tmp_path: Path) -> None:
    examples = built_npm_client()
    settings = {
        "BOTPOOL_BACKENDS__PROCESS__COMMAND": f"{sys.executable} -m botpool.agent.demo",
        "BOTPOOL_WEBHOOKS__ALLOW_PRIVATE_ADDRESSES": "true",
    }
    with served(url, tmp_path, max_size=1, **settings) as server:
        sent = run(server, examples / "send-bot.mjs")
        booked = run(server, examples / "schedule-bot.mjs")
        received = run(server, examples / "receive-webhook.mjs")
    assert "is in the call" in sent and re.search("ended (DONE|CANCELLED)", sent), sent
    assert "bot.status PENDING -> DEPLOYING" in sent
    assert re.match(
        r"bot \d+ is SCHEDULED, with a reserved slot: false\nScribe joins earlier\n", booked
    )
    assert re.search(r"(?s)done\nbot \d+ ended DONE\n.*joining.* > in_call", booked), booked
    assert received == "bot.failed of bot 7\nthe test was answered with 204\n"


def test_calls_of_the_client_are_those_of_the_openapi_document() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "client-ts-reference"))
    written = (ROOT / "packages" / "client-ts" / "src" / "api.ts").read_text()
    assert written == script["page"](), "run `make reference`"
