"""Metrics of work that is behind: warm floors that are missed, and events that are pending."""

from botpool.domain.policy import Policy
from botpool.domain.warm import Warm
from botpool.engine.observability.metrics import Metrics
from botpool.engine.observability.metrics_export import MetricsExport
from botpool.engine.replica import Replica
from tests.support.replicas import CALLER, MEET, Stage, pool


def value(source: Replica | Metrics, name: str, **labels: str) -> float | None:
    metrics = source if isinstance(source, Metrics) else source.metrics
    return metrics.instruments.registry.get_sample_value(f"botpool_{name}", labels)


async def test_missed_warm_floor_shows_as_fewer_ready_slots_than_the_target(stage: Stage) -> None:
    replica = await stage.replica(pool(3, warm=Warm(hot=2, idle=3)))
    await replica.metrics_export.text()
    for floor, target in (("hot", 2), ("idle", 3)):
        assert value(replica, "warm_slots_target", pool=MEET, floor=floor) == target
        assert value(replica, "warm_slots_ready", pool=MEET, floor=floor) == 0


async def test_age_of_the_oldest_pending_webhook_event_is_exported(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(allow_private_webhooks=True))
    webhook, _ = await replica.webhooks.create(CALLER, "http://127.0.0.1:9/", tenant_id=None)
    stage.rows(
        "INSERT INTO webhook_deliveries (webhook_id, event_id, history_id, type, payload, status,"
        "    created_at)"
        " SELECT %s, n::text, n, 'bot.done', '{}', status,"
        "    botpool_now() - make_interval(hours => n)"
        " FROM (VALUES (1, 'pending'), (2, 'pending'), (3, 'delivered')) AS v (n, status)",
        webhook.id,
    )

    async def oldest_pending_s() -> float | None:
        metrics = Metrics()
        floors = replica.standby_keeper.floors
        await MetricsExport(replica.database, metrics, floors=floors).text()
        return value(metrics, "webhook_oldest_pending_seconds")

    assert 7_200 <= (await oldest_pending_s() or 0) < 10_800
    stage.rows("UPDATE webhooks SET disabled_at = botpool_now(), disabled_reason = 'test'")
    assert await oldest_pending_s() == 0
