"""Webhooks: events from history, delivered in order per bot and at least once."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from botpool.domain.errors import NotFound, TooManyWebhooks, WebhookAddressRefused
from botpool.domain.ids import BotId, TenantId
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.domain.webhook_events import EventType
from botpool.domain.webhooks import DELAYS_S, MAX_WEBHOOKS, DeliveryStatus, Webhook
from botpool.engine.replica import Replica
from botpool.engine.webhooks.outbox import Outbox
from tests.support.replicas import CALLER, Stage, bot_request, pool
from tests.support.webhook_receiver import Received, Receiver, receiving

PRIVATE = Policy(allow_private_webhooks=True)
CALLER_ALL = replace(CALLER, scope="operator")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def webhook_of(replica: Replica, url: str, **values: Any) -> Webhook:
    webhook, _ = await replica.webhooks.create(CALLER, url, **({"tenant_id": None} | values))
    return webhook


async def deliver(*replicas: Replica) -> None:
    """Read history and send until nothing is due."""
    busy = True
    while busy:
        busy = False
        for replica in replicas:
            await replica.webhook_dispatcher.run()
            busy = busy or replica.webhook_dispatcher.sending > 0
            await replica.webhook_dispatcher.settle()


async def run_to_end(stage: Stage, replica: Replica) -> BotId:
    """Run a bot through a call to DONE."""
    bot = (await stage.run_bot(replica)).bot
    assignment = stage.slot_of(bot.id)["assignment_id"]
    for status in (BotStatus.IN_WAITING_ROOM, BotStatus.IN_CALL, BotStatus.CALL_ENDED):
        await replica.agents.report(assignment, bot.id, status, None)
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    return bot.id


def answer_with(status: int, _: Received) -> int:
    return status


def delivery(stage: Stage) -> dict[str, Any]:
    (row,) = stage.rows("SELECT * FROM webhook_deliveries")
    return row


async def test_webhook_gets_the_events_of_a_bot_in_order(stage: Stage, receiver: Receiver) -> None:
    replica = await stage.replica(pool(1), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    bot_id = await run_to_end(stage, replica)
    await deliver(replica)
    types = [each.event["type"] for each in receiver.requests]
    assert types == [
        "bot.started", "bot.joined", "bot.in_call", "bot.call_ended", "bot.done",
    ]  # fmt: skip
    assert {each.bot_id for each in receiver.requests} == {bot_id}
    assert len({each.id for each in receiver.requests}) == len(types)
    last = receiver.requests[-1].event
    assert last["timestamp"] == "2026-01-05T10:00:00Z"
    assert last["data"] | {"slotName": None} == {
        "botId": bot_id, "platform": "google-meet", "tenant": "default", "correlationId": "corr",
        "botDisplayName": "Botpool", "slotName": None, "reason": "reported by the agent",
        "status": "DONE", "endReason": None,
    }  # fmt: skip
    rows = stage.rows("SELECT status, attempts FROM webhook_deliveries")
    assert rows == [{"status": "delivered", "attempts": 1}] * 5


async def test_failed_event_is_retried_with_the_delays_and_the_same_id(
    stage: Stage, receiver: Receiver
) -> None:
    """Each attempt follows after its delay and at most a tenth more; the last one is the tenth."""
    receiver.answer = lambda _: 500
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    for number, delay_s in enumerate(DELAYS_S, start=1):
        if number > 1:
            stage.clock.move(delay_s - 1)
            await deliver(replica)
            assert len(receiver.requests) == number - 1, "an attempt came too early"
            stage.clock.move(1 + delay_s * 0.1 + 70)  # a failing webhook also pauses for a minute
        await deliver(replica)
        assert len(receiver.requests) == number
    row = delivery(stage)
    assert (row["status"], row["attempts"], row["response_status"]) == ("failed", 10, 500)
    assert row["problem"] == "answered 500" and row["response_body"] == "answer"
    assert {each.id for each in receiver.requests} == {row["event_id"]}
    stage.clock.move(30 * 86_400)
    await deliver(replica)
    assert len(receiver.requests) == len(DELAYS_S)


async def test_later_events_of_a_bot_wait_for_an_earlier_one_and_other_bots_do_not(
    stage: Stage, receiver: Receiver
) -> None:
    replica = await stage.replica(pool(2), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    first = await run_to_end(stage, replica)
    receiver.answer = lambda request: 500 if request.bot_id == first else 204
    await deliver(replica)
    assert [each.event["type"] for each in receiver.requests] == ["bot.started"]
    second = await run_to_end(stage, replica)
    await deliver(replica)
    assert [each.bot_id for each in receiver.accepted] == [second] * 5
    receiver.answer = lambda _: 204
    stage.clock.move(6)
    await deliver(replica)
    types = [each.event["type"] for each in receiver.accepted if each.bot_id == first]
    assert types == ["bot.started", "bot.joined", "bot.in_call", "bot.call_ended", "bot.done"]


async def test_row_of_a_transaction_that_commits_late_is_not_skipped(
    stage: Stage, receiver: Receiver
) -> None:
    """Sequence order is not commit order: history is read below the oldest running transaction."""
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    bot = (await replica.admission.admit(bot_request())).bot
    await deliver(replica)
    insert = (
        "INSERT INTO history (kind, bot_id, reason) VALUES ('bot.stalled', %s, 'late') RETURNING id"
    )
    with psycopg.connect(stage.url) as late:
        (late_id,) = late.execute(insert, [bot.id]).fetchone() or (0,)
        other = (await replica.admission.admit(bot_request())).bot
        await deliver(replica)
        assert [each.bot_id for each in receiver.requests] == [bot.id]
        late.commit()
    await deliver(replica)
    (newest,) = stage.rows("SELECT max(id) AS id FROM history WHERE bot_id = %s", other.id)
    # The queued event of the other bot can arrive before or after the late one.
    assert {each.id for each in receiver.requests[1:]} == {f"evt_{late_id}", f"evt_{newest['id']}"}


async def test_events_of_a_bot_keep_their_order_although_their_transactions_do_not(
    stage: Stage, receiver: Receiver
) -> None:
    """A transaction with a lower id can write a bot's later row; a third one holds the horizon."""
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    bot = (await replica.admission.admit(bot_request())).bot
    await deliver(replica)
    insert = "INSERT INTO history (kind, bot_id, reason) VALUES ('bot.stalled', %s, %s)"
    with (
        psycopg.connect(stage.url) as older,
        psycopg.connect(stage.url) as holder,
        psycopg.connect(stage.url) as newer,
    ):
        for connection in (older, holder, newer):
            connection.execute("SELECT pg_current_xact_id()")
        newer.execute(insert, [bot.id, "first"])
        newer.commit()
        older.execute(insert, [bot.id, "second"])
        older.commit()
        await deliver(replica)
        holder.commit()
    await deliver(replica)
    reasons = [each.event["data"]["reason"] for each in receiver.requests[1:]]
    assert reasons == ["first", "second"]
    assert len({each.id for each in receiver.requests}) == 3


async def test_another_replica_repeats_the_attempt_of_a_dead_one_with_the_same_id(
    stage: Stage, receiver: Receiver
) -> None:
    first, second = [await stage.replica(pool(0), policy=PRIVATE) for _ in range(2)]
    await webhook_of(first, receiver.url)
    await first.admission.admit(bot_request())
    receiver.delay_s = 60
    await first.webhook_dispatcher.run()
    while not receiver.requests:
        await asyncio.sleep(0.01)
    await first.webhook_dispatcher.stop()
    receiver.delay_s = 0
    await deliver(second)
    assert len(receiver.requests) == 1, "the lease of the first replica still runs"
    stage.clock.move(second.webhook_dispatcher.lease_s)
    await deliver(second)
    assert len(receiver.requests) == 2
    assert len({each.id for each in receiver.requests}) == 1
    assert delivery(stage)["status"] == "delivered"


async def test_late_result_of_a_repeated_attempt_changes_nothing(
    stage: Stage, receiver: Receiver
) -> None:
    first, second = [await stage.replica(pool(0), policy=PRIVATE) for _ in range(2)]
    await webhook_of(first, receiver.url)
    await first.admission.admit(bot_request())
    answers = asyncio.Event()
    send = first.webhook_dispatcher._sender.send

    async def send_late(*arguments: Any) -> Any:
        await answers.wait()
        return await send("http://127.0.0.1:1/", *arguments[1:])

    first.webhook_dispatcher._sender.send = send_late  # type: ignore[method-assign]
    await first.webhook_dispatcher.run()
    while not delivery(stage)["attempts"]:
        await asyncio.sleep(0.01)
    stage.clock.move(first.webhook_dispatcher.lease_s)
    await deliver(second)
    assert delivery(stage)["status"] == "delivered"
    answers.set()
    await first.webhook_dispatcher.settle()
    assert delivery(stage)["status"] == "delivered"
    assert stage.rows("SELECT failures FROM webhooks") == [{"failures": 0}]


async def test_webhook_that_answers_410_is_disabled_until_a_replay(
    stage: Stage, receiver: Receiver
) -> None:
    receiver.answer = lambda _: 410
    replica = await stage.replica(pool(0), policy=PRIVATE)
    webhook = await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    found = await replica.webhooks.find(CALLER_ALL, webhook.id)
    assert found.disabled_at is not None
    assert found.disabled_reason == "The endpoint answered 410: it wants no more events."
    await replica.admission.admit(bot_request())
    stage.clock.move(86_400)
    await deliver(replica)
    assert len(receiver.requests) == 1
    receiver.answer = lambda _: 204
    replayed = await replica.webhooks.replay(CALLER_ALL, webhook.id)
    assert replayed.disabled_at is None
    await deliver(replica)
    assert len(receiver.accepted) == 2, "the events of the disabled time follow"


async def test_webhook_that_fails_for_five_days_is_disabled(
    stage: Stage, receiver: Receiver
) -> None:
    receiver.answer = lambda _: 503
    replica = await stage.replica(pool(0), policy=PRIVATE)
    webhook = await webhook_of(replica, receiver.url)
    for _ in range(5):
        await replica.admission.admit(bot_request())
        await deliver(replica)
        assert (await replica.webhooks.find(CALLER_ALL, webhook.id)).disabled_at is None
        stage.clock.move(86_400)
    await deliver(replica)
    found = await replica.webhooks.find(CALLER_ALL, webhook.id)
    assert found.disabled_reason == "All attempts failed for 5 days."
    sent = len(receiver.requests)
    stage.clock.move(86_400)
    await deliver(replica)
    assert len(receiver.requests) == sent


async def test_success_ends_the_time_of_failure(stage: Stage, receiver: Receiver) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    webhook = await webhook_of(replica, receiver.url)
    for day in range(8):
        status = 204 if day == 4 else 500
        receiver.answer = partial(answer_with, status)
        await replica.admission.admit(bot_request())
        await deliver(replica)
        stage.clock.move(86_400)
    assert (await replica.webhooks.find(CALLER_ALL, webhook.id)).disabled_at is None


async def test_retry_after_delays_all_events_of_the_webhook(
    stage: Stage, receiver: Receiver
) -> None:
    receiver.answer = lambda _: (429, {"Retry-After": "3600"})
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    await replica.admission.admit(bot_request())
    stage.clock.move(3599)
    await deliver(replica)
    assert len(receiver.requests) == 1
    receiver.answer = lambda _: 204
    stage.clock.move(1)
    await deliver(replica)
    assert len(receiver.accepted) == 2


async def test_redirects_are_not_followed(stage: Stage, receiver: Receiver) -> None:
    receiver.answer = lambda _: (302, {"Location": "/elsewhere"})
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    assert [each.path for each in receiver.requests] == ["/hook"]
    assert delivery(stage)["problem"] == "answered 302; redirects are not followed"


async def test_dead_endpoint_gets_one_attempt_a_minute_and_bounded_rows(
    stage: Stage, receiver: Receiver
) -> None:
    """History is the outbox: a webhook with many pending deliveries does not read on."""
    receiver.answer = lambda _: 500
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    outbox = Outbox(database=replica.database, batch=10, max_pending=30)
    replica.webhook_dispatcher._outbox = outbox
    for _ in range(60):
        await replica.admission.admit(bot_request())
    await deliver(replica)
    (rows,) = stage.rows("SELECT count(*) AS pending FROM webhook_deliveries")
    assert rows["pending"] <= 40
    sent = len(receiver.requests)
    assert sent < 20, "a webhook that fails again and again pauses"
    stage.clock.move(67)
    await deliver(replica)
    assert len(receiver.requests) == sent + 1
    receiver.answer = lambda _: 204
    for _ in range(30):
        stage.clock.move(400)
        await deliver(replica)
    assert len({each.bot_id for each in receiver.accepted}) == 60, "the rest came from history"


async def test_slow_endpoint_does_not_delay_the_others(stage: Stage, receiver: Receiver) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    async with receiving(delay_s=3600) as slow:
        await webhook_of(replica, slow.url)
        await webhook_of(replica, receiver.url)
        for _ in range(20):
            await replica.admission.admit(bot_request())
        while len(receiver.accepted) < 20:
            await replica.webhook_dispatcher.run()
            await asyncio.sleep(0.01)
        assert len(slow.requests) <= 8
        assert not slow.accepted
        await replica.webhook_dispatcher.stop()


async def test_webhook_of_a_tenant_gets_only_events_of_its_bots(
    stage: Stage, receiver: Receiver
) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    acme = await replica.tenants.create("acme")
    tenant_id = await replica.tenants.id_of(acme.name)
    own = replace(CALLER, tenant_id=tenant_id, tenant="acme")
    webhook = await webhook_of(replica, receiver.url, tenant_id=tenant_id)
    await replica.admission.admit(bot_request())
    mine = await replica.admission.admit(bot_request(caller=own))
    stage.rows(
        "INSERT INTO history (kind, to_state, reason, data) "
        "VALUES ('pool.health', 'degraded', 'silent', '{\"platform\": \"google-meet\"}')"
    )
    await deliver(replica)
    assert [each.bot_id for each in receiver.requests] == [mine.bot.id]
    assert await replica.webhooks.find(own, webhook.id)
    with pytest.raises(NotFound):
        await replica.webhooks.find(CALLER, webhook.id)


async def test_webhook_gets_only_the_types_that_it_wants(stage: Stage, receiver: Receiver) -> None:
    replica = await stage.replica(pool(1), policy=PRIVATE)
    await webhook_of(replica, receiver.url, events=[EventType.BOT_DONE, EventType.POOL_DEGRADED])
    await run_to_end(stage, replica)
    stage.rows(
        "INSERT INTO history (kind, to_state, reason, data) "
        "VALUES ('pool.health', 'degraded', 'silent', '{\"platform\": \"google-meet\"}')"
    )
    await deliver(replica)
    assert sorted(each.event["type"] for each in receiver.requests) == [
        "bot.done", "pool.degraded",
    ]  # fmt: skip


async def test_replay_since_a_time_repeats_events_with_their_ids(
    stage: Stage, receiver: Receiver
) -> None:
    replica = await stage.replica(pool(1), policy=PRIVATE)
    webhook = await webhook_of(replica, receiver.url)
    await run_to_end(stage, replica)
    await deliver(replica)
    stage.clock.move(60)
    middle = stage.rows("SELECT botpool_now() AS at")[0]["at"]
    await run_to_end(stage, replica)
    await deliver(replica)
    before = [each.id for each in receiver.requests]
    await replica.webhooks.replay(CALLER_ALL, webhook.id, since=middle)
    await deliver(replica)
    assert [each.id for each in receiver.requests[10:]] == before[5:]
    await replica.webhooks.replay(CALLER_ALL, webhook.id, event_id=before[0])
    await deliver(replica)
    assert [each.id for each in receiver.requests[15:]] == before[:1]
    with pytest.raises(NotFound):
        await replica.webhooks.replay(CALLER_ALL, webhook.id, event_id="evt_1")


async def test_requests_carry_both_signatures_during_a_rotation(
    stage: Stage, receiver: Receiver
) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    webhook, first = await replica.webhooks.create(CALLER, receiver.url, tenant_id=None)
    _, second = await replica.webhooks.rotate(CALLER_ALL, webhook.id, overlap_s=3600)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    stage.clock.move(3601)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    both, last = receiver.requests
    for secret in (first, second):
        Verifier(secret).verify(both.body, dict(both.headers))
    Verifier(second).verify(last.body, dict(last.headers))
    with pytest.raises(WebhookVerificationError):
        Verifier(first).verify(last.body, dict(last.headers))


async def test_secrets_survive_a_rotation_of_the_installation_secret(
    stage: Stage, receiver: Receiver
) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    _, secret = await replica.webhooks.create(CALLER, receiver.url, tenant_id=None)
    stored = stage.rows("SELECT sealed_secret FROM webhooks")[0]["sealed_secret"]
    assert base64.b64decode(secret.removeprefix("whsec_")) not in stored
    both = replace(replica.webhooks, keys=(b"newer", *replica.webhooks.keys))
    await both.reseal()
    replica.webhook_dispatcher._sender._keys = (b"newer",)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    (request,) = receiver.requests
    Verifier(secret).verify(request.body, dict(request.headers))
    replica.webhook_dispatcher._sender._keys = (b"another",)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    assert len(receiver.requests) == 1
    (failed,) = stage.rows("SELECT problem FROM webhook_deliveries WHERE status = 'pending'")
    assert "installation.secrets" in failed["problem"]


async def test_tenant_has_a_limited_number_of_webhooks(stage: Stage, receiver: Receiver) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    for _ in range(MAX_WEBHOOKS):
        await webhook_of(replica, receiver.url)
    with pytest.raises(TooManyWebhooks):
        await webhook_of(replica, receiver.url)
    await webhook_of(replica, receiver.url, tenant_id=TenantId(1))


async def test_private_address_is_refused_at_creation(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    with pytest.raises(WebhookAddressRefused, match="allow_private_addresses"):
        await webhook_of(replica, "http://127.0.0.1/hook")


async def test_cursor_of_another_server_continues_after_a_restore(
    stage: Stage, receiver: Receiver
) -> None:
    """A restored database has transaction ids that its new server has not reached."""
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    await replica.admission.admit(bot_request())
    far = "(pg_current_xact_id()::text::bigint + 1000000)::text::xid8"
    stage.rows(f"UPDATE history SET xid = {far}")
    stage.rows(f"UPDATE webhooks SET cursor_xid = {far}, cursor_id = 0")
    await replica.admission.admit(bot_request())
    for _ in range(3):
        await deliver(replica)
    assert len({each.id for each in receiver.requests}) == 3
    assert len(receiver.requests) == 3


async def test_finished_deliveries_are_pruned_and_pending_ones_stay(
    stage: Stage, receiver: Receiver
) -> None:
    replica = await stage.replica(pool(0), policy=PRIVATE)
    await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    await deliver(replica)
    receiver.answer = lambda _: 500
    await replica.admission.admit(bot_request())
    await deliver(replica)
    stage.clock.move(8 * 86_400)
    await replica.cleanup.run()
    assert [row["status"] for row in stage.rows("SELECT status FROM webhook_deliveries")] == [
        "pending"
    ]


async def test_failed_events_are_shown_and_replayed(stage: Stage, receiver: Receiver) -> None:
    receiver.answer = lambda _: 400
    replica = await stage.replica(pool(0), policy=PRIVATE)
    webhook = await webhook_of(replica, receiver.url)
    await replica.admission.admit(bot_request())
    for _ in DELAYS_S:
        await deliver(replica)
        stage.clock.move(30 * 3600)
        stage.rows("UPDATE webhooks SET failing_since = botpool_now()")
    found = await replica.webhooks.find(CALLER_ALL, webhook.id)
    assert (found.failed, found.pending) == (1, 0)
    page = await replica.webhooks.deliveries(
        CALLER_ALL, webhook.id, status=DeliveryStatus.FAILED, before=None, limit=10
    )
    assert [each.attempts for each in page.items] == [10]
    receiver.answer = lambda _: 204
    await replica.webhooks.replay(CALLER_ALL, webhook.id)
    await deliver(replica)
    assert delivery(stage)["status"] == "delivered"
