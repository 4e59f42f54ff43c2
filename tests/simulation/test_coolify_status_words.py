"""Coolify's status words: `error` fails a start, `stopped` is an end, others are reported."""

import logging
from contextlib import AbstractAsyncContextManager

import structlog

from botpool.engine.maintenance.doctor import run_checks
from botpool.engine.maintenance.doctor.check_run import Target
from tests.simulation.coolify_simulation import (
    FAST_COOLIFY,
    FAST_POLICY,
    FAST_STATUS_LAG_S,
    CoolifySimulation,
    coolify_pool,
)

UNKNOWN = "hibernating:unknown"


def start(url: str) -> AbstractAsyncContextManager[CoolifySimulation]:
    return CoolifySimulation.start(
        url,
        coolify_pool(1),
        emulator_config=FAST_COOLIFY,
        policy=FAST_POLICY,
        status_lag_s=FAST_STATUS_LAG_S,
        call_s=120,
    )


async def test_error_fails_start_at_once(database_url: str) -> None:
    """The first start pulls for a minute; the status `error` ends it before."""
    async with start(database_url) as simulation:
        await simulation.admit(1)
        await simulation.run_until(
            lambda: bool(
                simulation.rows("SELECT 1 FROM bot_pool_slots WHERE deployment_id IS NOT NULL")
            ),
            within_s=60,
        )
        simulation.coolify.set_faults({"reportStatus": {"status": "error:unhealthy"}})
        began = simulation.now
        await simulation.run_until(
            lambda: bool(simulation.rows("SELECT 1 FROM assignments WHERE failure IS NOT NULL")),
            within_s=600,
        )
        (failed,) = simulation.rows("SELECT failure FROM assignments")
        assert failed["failure"] == "the container shows error:unhealthy"
        assert simulation.now - began <= 2 * FAST_POLICY.observe_interval_s + 5


async def test_stopped_confirms_stop(database_url: str) -> None:
    async with start(database_url) as simulation:
        await simulation.admit(1)
        await simulation.run_until(
            lambda: set(simulation.statuses().values()) == {"IN_CALL"}, within_s=600
        )
        simulation.coolify.set_faults({"reportStatus": {"status": "stopped:unknown"}})
        await simulation.run_until(simulation.all_ended, within_s=600)
        assert set(simulation.statuses().values()) == {"DONE"}
        await simulation.run_until(
            lambda: bool(simulation.rows("SELECT 1 FROM bot_pool_slots WHERE status = 'idle'")),
            within_s=300,
        )
        assert not simulation.bots.running


async def test_unknown_status_is_logged_once_counted_and_shown_by_doctor(
    database_url: str,
) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    async with start(database_url) as simulation:
        await simulation.admit(1)
        await simulation.run_until(
            lambda: set(simulation.statuses().values()) == {"IN_CALL"}, within_s=600
        )
        simulation.coolify.set_faults({"reportStatus": {"status": UNKNOWN}})
        with structlog.testing.capture_logs() as log:
            await simulation.tick(30)
            await simulation.tick(30)
        (slot,) = simulation.rows("SELECT container_id FROM bot_pool_slots")
        (line,) = [line for line in log if line["event"] == "backend.unknown_status"]
        assert (line["status"], line["container"]) == (UNKNOWN, slot["container_id"])
        replica = simulation.replicas[0].replica
        metrics = (await replica.metrics_export.text()).decode()
        counted = 'botpool_backend_unknown_statuses_total{backend="coolify"} '
        (sample,) = [each for each in metrics.splitlines() if each.startswith(counted)]
        assert float(sample.removeprefix(counted)) >= 2
        target = Target(
            database_url=database_url,
            backends={"coolify": replica.observer.backends["coolify"]},
            pool_backends=frozenset({"coolify"}),
            policy=FAST_POLICY,
        )
        findings = {each.check: each async for each in run_checks(target)}
        assert findings["unknown_statuses"].result == "warning"
        assert f"shows “{UNKNOWN}”" in findings["unknown_statuses"].found
        assert slot["container_id"] in findings["unknown_statuses"].found
