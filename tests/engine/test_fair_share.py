"""Fair share: tenants take turns while bots of several tenants wait."""

import random
from collections import Counter

import pytest

from botpool.engine.admission.estimates import Estimates
from tests.support.invariants import assert_invariants
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, pool
from tests.support.tenant_clients import Clients


@pytest.fixture
async def clients(stage: Stage) -> Clients:
    return Clients(stage, await stage.replica(pool(2), pool(2, TEAMS)))


async def test_one_tenant_has_no_turns(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.post("a", 6)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {}


async def test_outdated_hint_delays_a_match_until_the_poll(clients: Clients) -> None:
    """A replica that does not know of the second tenant must not ignore turns and quotas."""
    await clients.replica.queue_poller.poll()
    assert not clients.replica.matcher.is_shared
    await clients.tenant("a", max_live=1)
    bots = await clients.post("a", 2)
    assert clients.stage.statuses(*bots) == ["QUEUED", "QUEUED"]
    await clients.replica.queue_poller.poll()
    assert clients.replica.matcher.is_shared
    assert clients.stage.statuses(*bots) == ["DEPLOYING", "QUEUED"]
    assert_invariants(clients.stage.url)


async def test_installation_with_one_tenant_uses_a_statement_without_tenants(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    await replica.queue_poller.poll()
    first, second = [(await replica.admission.admit(bot_request())).bot.id for _ in range(2)]
    assert replica.matcher.prepare_match(MEET).assigned.name == "match_queue"
    assert stage.statuses(first, second) == ["DEPLOYING", "QUEUED"]


async def test_first_bot_of_a_new_tenant_is_next(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 20)
    (late,) = await clients.post("b")
    await clients.release(first)
    assert clients.stage.statuses(late) == ["DEPLOYING"]
    assert_invariants(clients.stage.url)


async def test_queue_of_a_tenant_keeps_its_own_order(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, second, *_ = await clients.post("a", 2)
    usual, last = await clients.post("b", 2)
    (urgent,) = await clients.post("b", priority=1)
    await clients.post("a", 2)
    await clients.release(first)
    assert clients.stage.statuses(usual, urgent) == ["QUEUED", "DEPLOYING"]
    await clients.release(second)
    assert clients.used() == {"a": 1, "b": 1}
    await clients.release(urgent)
    assert clients.stage.statuses(usual, last) == ["DEPLOYING", "QUEUED"]


async def test_tenant_that_filled_the_pool_alone_does_not_keep_its_lead(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    bots = await clients.post("a", 10)
    await clients.post("b", 10)
    for bot_id in bots[:2]:
        await clients.release(bot_id)
    assert clients.used() == {"a": 1, "b": 1}


async def test_tenant_with_slots_in_use_is_not_next_when_it_begins_to_wait(
    clients: Clients,
) -> None:
    """The count of slots precedes its first turn: it used all slots without a turn."""
    for name in ("a", "b", "c"):
        await clients.tenant(name)
    first, _ = await clients.post("a", 2)
    await clients.post("b", 3)
    await clients.post("c", 3)
    await clients.post("a", 3)
    await clients.release(first)
    assert clients.used() == {"a": 1, "b": 1}


@pytest.mark.parametrize("way", ["cancelled", "expired"])
async def test_turn_without_bots_leaves_no_slot_idle(clients: Clients, way: str) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 5)
    (gone,) = await clients.post("b")
    if way == "cancelled":
        await clients.replica.bot_stopper.stop(gone)
    else:
        clients.stage.rows(
            "UPDATE bot_pool_queue SET timeout_at = botpool_now() WHERE bot_id = %s", gone
        )
        await clients.replica.queue_poller.expire()
    await clients.release(first)
    assert clients.used() == {"a": 2}
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {"a": False, "b": False}


async def test_poll_restores_a_missing_turn(clients: Clients) -> None:
    """As after a crash between the commit of the queue row and that of the turn."""
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 5)
    clients.fill_queue("b", 2)
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {"a": True, "b": True}
    await clients.release(first)
    assert clients.used() == {"a": 1, "b": 1}


async def test_turns_end_when_one_tenant_remains(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    first, *_ = await clients.post("a", 5)
    await clients.post("b")
    await clients.release(first)
    clients.stage.clock.move(1)
    await clients.replica.queue_poller.poll()
    assert clients.turns() == {"a": False, "b": False}


async def test_single_requests_do_not_starve_a_long_queue(stage: Stage) -> None:
    """A tenant that asks for one bot at a time gets no head start at each return."""
    clients = Clients(stage, await stage.replica(pool(1)))
    await clients.tenant("a")
    await clients.tenant("b")
    await clients.post("a", 25)
    served = Counter[str]()
    for _ in range(16):
        waiting = stage.rows("SELECT DISTINCT tenant_id FROM bot_pool_queue")
        if len(waiting) == 1:
            await clients.post("b")
        await clients.release(*clients.assigned())
        served.update(clients.tenants_of(set(clients.assigned())))
    assert served == {"a": 8, "b": 8}


async def test_sixty_tenants_on_two_slots_are_all_served(clients: Clients) -> None:
    names = [f"t{n}" for n in range(60)]
    for name in names:
        await clients.tenant(name)
    await clients.post("t0", 2)
    for name in names:
        clients.fill_queue(name, 3)
    await clients.replica.matcher.refresh_turns(MEET)
    for _ in range(31):
        await clients.release(*clients.assigned())
    rows = clients.stage.rows(
        "SELECT DISTINCT b.tenant_id FROM assignments a JOIN bots b ON b.id = a.bot_id"
    )
    assert len(rows) == 60


async def test_position_is_that_in_the_queue_of_the_tenant(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    await clients.post("a", 7)
    request = bot_request(caller=clients.callers["b"])
    first = await clients.replica.admission.admit(request)
    second = await clients.replica.admission.admit(request)
    assert (first.position, second.position) == (1, 2)
    found = await clients.replica.admission.find(second.bot.id)
    assert found.position == 2
    page = await clients.replica.queries.queue(None, tenant_id=None, after=None, limit=50)
    shown = {entry.bot_id: entry.position for entry, _ in page.items}
    assert shown[first.bot.id] == 1
    assert sorted(shown.values()) == [1, 1, 2, 2, 3, 4, 5]


async def test_estimate_accounts_for_the_other_tenants(clients: Clients) -> None:
    await clients.tenant("a")
    await clients.tenant("b")
    await clients.post("a", 2)
    clients.stage.clock.move(100)
    await clients.post("a", 10)
    await clients.post("b")
    estimates = Estimates(clients.replica.database)
    alone = await estimates.wait_ms(MEET, "another", 1)
    assert alone is not None
    assert await estimates.wait_ms(MEET, "b", 1) == 2 * alone


@pytest.mark.parametrize("weights", [(1, 1, 2)])
async def test_shares_follow_the_weights_over_a_thousand_hand_overs(
    stage: Stage, weights: tuple[int, ...]
) -> None:
    replica = await stage.replica(pool(20))
    clients = Clients(stage, replica)
    by_name = dict(zip("abc", weights, strict=True))
    for name, weight in by_name.items():
        await clients.tenant(name, weight=weight)
    await clients.post("a", 20)
    for name in by_name:
        clients.fill_queue(name, 500 if name != "a" else 520)
    await replica.matcher.refresh_turns(MEET)
    chance = random.Random(7)
    handed_over = Counter[str]()
    while handed_over.total() < 1000:
        before = set(clients.assigned())
        await clients.release(*chance.sample(sorted(before), 10))
        handed_over.update(clients.tenants_of(set(clients.assigned()) - before))
    assert handed_over["c"] == pytest.approx(500, rel=0.05)
    assert handed_over["a"] == pytest.approx(250, rel=0.05)
    assert handed_over["b"] == pytest.approx(250, rel=0.05)
    await clients.tenant("new")
    (first_of_new,) = await clients.post("new")
    await clients.release(clients.assigned()[0])
    assert stage.statuses(first_of_new) == ["DEPLOYING"]
