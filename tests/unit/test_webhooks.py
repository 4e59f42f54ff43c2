"""Webhooks: signatures, delays, addresses and the documented events."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from botpool.domain.states import BotStatus
from botpool.domain.webhook_events import SOURCES, EventType, example_of, payload_of
from botpool.domain.webhook_signing import (
    new_webhook_secret,
    seal,
    shown_secret,
    signed_headers,
    unseal,
)
from botpool.domain.webhooks import (
    DELAYS_S,
    Answer,
    DeliveryStatus,
    host_problem,
    is_allowed_address,
    judge,
    retry_after,
)
from botpool.engine.webhooks.sender import Sender
from tests.support.agent_programs import NODE_PACKAGES
from tests.support.components import missing
from tests.support.webhook_receiver import receiving

BODY = payload_of(example_of(EventType.BOT_DONE)).encode()
DOCS = Path(__file__).parents[2] / "docs"
OLD_S = 301
"""Both verifiers accept a timestamp of the last five minutes."""

NODE_VERIFIER = """
import { Webhook } from "standardwebhooks";
let text = "";
for await (const part of process.stdin) text += part;
const { secret, body, headers } = JSON.parse(text);
try {
  new Webhook(secret).verify(body, headers);
  console.log("accepted");
} catch (error) {
  console.log(`refused: ${error.message}`);
}
"""

Verify = Callable[[str, bytes, dict[str, str]], bool]


def verify_in_python(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        Verifier(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def verify_in_node(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    node = shutil.which("node")
    if node is None or not (NODE_PACKAGES / "standardwebhooks").exists():
        missing("standardwebhooks of npm", "run scripts/install-test-packages (needs npm)")
    program = NODE_PACKAGES.parent / "verify.mjs"
    program.write_text(NODE_VERIFIER)
    sent = json.dumps({"secret": secret, "body": body.decode(), "headers": headers})
    ran = subprocess.run([node, program], input=sent, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith(("accepted", "refused")), ran.stdout
    return ran.stdout.startswith("accepted")


@pytest.mark.parametrize("verify", [verify_in_python, verify_in_node])
def test_public_verifiers_accept_signatures_and_refuse_an_old_timestamp(verify: Verify) -> None:
    secret, other = new_webhook_secret(), new_webhook_secret()
    now = int(time.time())
    sent = signed_headers([other, secret], message_id="evt_1", timestamp=now, body=BODY)
    assert verify(shown_secret(secret), BODY, sent)
    assert verify(shown_secret(other), BODY, sent), "both secrets of a rotation sign"
    old = signed_headers([secret], message_id="evt_1", timestamp=now - OLD_S, body=BODY)
    assert not verify(shown_secret(secret), BODY, old)
    assert not verify(shown_secret(secret), BODY + b" ", sent)
    assert not verify(shown_secret(new_webhook_secret()), BODY, sent)


def test_signature_is_that_of_the_specification() -> None:
    """The example of the Standard Webhooks specification."""
    from base64 import b64decode

    headers = signed_headers(
        [b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_sealed_secret_opens_with_its_key_only() -> None:
    secret = new_webhook_secret()
    sealed = seal(secret, b"key")
    assert secret not in sealed
    assert seal(secret, b"key") != sealed
    assert unseal(sealed, [b"newer", b"key"]) == secret
    assert unseal(sealed, [b"newer"]) is None
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        assert unseal(bytes(changed), [b"key"]) is None


def test_delays_are_those_of_the_issue_with_jitter() -> None:
    failure = Answer(status=500)
    hours = [5 / 3600, 5 / 60, 0.5, 2, 5, 10, 14, 20, 24]
    for attempts, expected in enumerate(hours, start=1):
        for drawn in (0.0, 0.5, 0.999):
            verdict = judge(failure, attempts=attempts, random=lambda drawn=drawn: drawn)
            assert verdict.delay_s == pytest.approx(expected * 3600 * (1 + drawn / 10))
    assert judge(failure, attempts=10, random=lambda: 0.0).status is DeliveryStatus.FAILED
    assert DELAYS_S[0] == 0


@pytest.mark.parametrize(
    ("status", "header", "delay_s", "pause_s"),
    [
        (503, "120", 120, 120),
        (429, "3", 5, 3),
        (500, "120", 120, None),
        (503, "99999999", 86400, 86400),
        (503, "soon", 5, None),
        (503, "Mon, 05 Jan 2026 10:01:00 GMT", 60, 60),
        (503, "Mon, 05 Jan 2026 09:00:00 GMT", 5, None),
    ],
)
def test_retry_after_is_honoured(
    status: int, header: str, delay_s: float, pause_s: float | None
) -> None:
    now = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)
    answer = Answer(status=status, retry_after_s=retry_after(header, now))
    verdict = judge(answer, attempts=1, random=lambda: 0.0)
    assert (verdict.delay_s, verdict.pause_s) == (delay_s, pause_s)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
        "100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "64:ff9b::7f00:1",
        "2002:7f00:1::", "2001:0:0:0:0:0:80ff:fffe", "not an address",
    ],
)  # fmt: skip
def test_address_that_is_not_public_is_refused(address: str) -> None:
    assert not is_allowed_address(address, allow_private=False)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"])
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed_address(address, allow_private=False)


def test_private_addresses_are_allowed_by_the_setting_but_not_multicast() -> None:
    assert is_allowed_address("127.0.0.1", allow_private=True)
    assert is_allowed_address("::1", allow_private=True)
    assert not is_allowed_address("224.0.0.1", allow_private=True)
    assert not is_allowed_address("0.0.0.0", allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/", "http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/",
        "http://[::ffff:127.0.0.1]/", "http://[::1]/", "http://db.internal/", "http://intranet/",
        "http://\uff11\uff12\uff17.0.0.1/",
    ],
)  # fmt: skip
def test_url_with_a_private_host_is_refused_at_once(url: str) -> None:
    assert host_problem(url, allow_private=False)
    assert not host_problem("https://example.org/hook", allow_private=False)


class ScriptedResolver(AbstractResolver):
    """Answers each lookup with the next of these addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = [*answers]
        self.asked = 0

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        self.asked += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(hostname=host, host=each, port=port, family=2, proto=0, flags=0)
            for each in found
        ]

    async def close(self) -> None: ...


async def _send(url: str, resolver: AbstractResolver, *, allow_private: bool = False) -> Answer:
    sender = Sender([b"key"], allow_private=allow_private, resolver=lambda: resolver)
    try:
        return await sender.send(url, "evt_1", "{}", [seal(new_webhook_secret(), b"key")])
    finally:
        await sender.close()


async def test_name_that_resolves_to_a_private_address_is_refused() -> None:
    async with receiving() as receiver:
        url = f"http://example.org:{receiver.port}/"
        for addresses in (["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]):
            answer = await _send(url, ScriptedResolver(addresses))
            assert answer.status is None
            assert "127.0.0.1 is not public" in (answer.problem or "")
    assert not receiver.requests


async def test_connection_goes_to_the_address_that_was_checked() -> None:
    """With DNS rebinding, a second lookup would give another address: there is none."""
    resolver = ScriptedResolver(["127.0.0.1"], ["127.0.0.2"])
    async with receiving() as receiver:
        answer = await _send(f"http://example.org:{receiver.port}/", resolver, allow_private=True)
    assert answer.status == 204
    assert resolver.asked == 1
    assert receiver.requests[0].headers["host"] == f"example.org:{receiver.port}"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0x7f.1"])
async def test_literal_private_address_is_refused_when_it_is_sent(host: str) -> None:
    """Also for a webhook that was created while private addresses were allowed."""
    async with receiving() as receiver:
        sender = Sender([b"key"], allow_private=False)
        sealed = seal(new_webhook_secret(), b"key")
        answer = await sender.send(f"http://{host}:{receiver.port}/", "evt_1", "{}", [sealed])
        await sender.close()
    assert answer.status is None and answer.problem and "not" in answer.problem, answer
    assert not receiver.requests


async def test_slow_answer_ends_with_the_timeout() -> None:
    async with receiving(delay_s=3600) as receiver:
        sender = Sender([b"key"], allow_private=True, timeout_s=0.05)
        sealed = seal(new_webhook_secret(), b"key")
        answer = await sender.send(receiver.url, "evt_1", "{}", [sealed])
        await sender.close()
    assert answer.problem == "no answer within 0.05 s"
    assert Sender([b"key"], allow_private=True).timeout_s == 15


def test_every_type_has_a_source_and_final_statuses_have_types() -> None:
    assert {source.type for source in SOURCES} == set(EventType)
    known = {source.to_state for source in SOURCES if source.kind == "bot.status"}
    silent = {"PENDING", "DEPLOYING", "LEAVING", "FINISHING"}
    assert {status.value for status in BotStatus} <= known | silent


def test_docs_have_the_example_of_every_event() -> None:
    text = (DOCS / "reference" / "webhooks.md").read_text()
    documented = [json.loads(each) for each in re.findall(r"```json\n(\{.*?)```", text, re.DOTALL)]
    shown = {each["type"]: each for each in documented}
    for event_type in EventType:
        assert shown.get(event_type.value) == json.loads(payload_of(example_of(event_type)))
