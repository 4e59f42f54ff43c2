"""The Grafana dashboard, the alerts and the reference use existing metrics and labels."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from botpool.engine.observability.metric_definitions import MetricDefinitions

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/botpool.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())

LABELS = {each.name: {*each.labels, "instance", "job"} for each in MetricDefinitions().described}
HISTOGRAMS = {each.name for each in MetricDefinitions().described if each.kind == "histogram"}
SERIES = LABELS | {
    f"{name}_{part}": LABELS[name] | ({"le"} if part == "bucket" else set())
    for name in HISTOGRAMS
    for part in ("bucket", "sum", "count")
}
RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in ALERTS["groups"][0]["rules"]}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for name, rule in RULES.items():
        yield name, rule["expr"]


@pytest.mark.parametrize(
    "expression", [pytest.param(text, id=where) for where, text in expressions()]
)
def test_expression_uses_existing_metrics_and_labels(expression: str) -> None:
    named = re.findall(r"botpool_\w+", expression)
    assert named
    unknown = set(named) - set(SERIES)
    assert not unknown
    # A histogram by its bare name has no samples.
    assert not set(named) & HISTOGRAMS
    of_all = set.union(*(SERIES[name] for name in named))
    for grouping in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert {label.strip() for label in grouping.split(",")} <= of_all
    for name, selector in re.findall(r"(botpool_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)(?:=|!)", selector)) <= SERIES[name]
    assert expression.count("(") == expression.count(")")


def test_dashboard_shows_required_metrics() -> None:
    shown = {panel["title"] for panel in DASHBOARD["panels"]}
    assert shown >= {
        "Slots by status",
        "Queue depth",
        "Warm hit ratio, 1 h",
        "Time to running",
        "Hand-over",
        "Backend calls by outcome",
        "Recoveries by reason",
        "Oldest pending webhook event",
        "Warm floors",
    }


def test_dashboard_shows_every_metric() -> None:
    shown = {name for _, text in expressions() for name in re.findall(r"botpool_\w+", text)}
    missing = {
        each.name
        for each in MetricDefinitions().described
        if not shown & {each.name, f"{each.name}_bucket", f"{each.name}_sum"}
    }
    assert missing == set()


def test_dashboard_can_be_imported() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert DASHBOARD["uid"]
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert all(panel["datasource"] == source for panel in DASHBOARD["panels"])
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (place["x"] + x, place["y"] + y)
        for place in places
        for x in range(place["w"])
        for y in range(place["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"
    assert all(x < 24 for x, _ in cells)


def test_every_alert_is_defined() -> None:
    assert set(RULES) == {
        "BotpoolQueueOld",
        "BotpoolPoolFull",
        "BotpoolBotsStalled",
        "BotpoolStopUnconfirmed",
        "BotpoolBackendUnavailable",
        "BotpoolRecoveriesRising",
        "BotpoolNoReplicaListening",
        "BotpoolConnectionsClosed",
        "BotpoolListenerNotAnswering",
        "BotpoolDatabaseUnreachable",
        "BotpoolBotsFailing",
        "BotpoolMassSilence",
        "BotpoolEgressPaused",
        "BotpoolWebhooksFailing",
        "BotpoolWebhookDisabled",
        "BotpoolWebhookEventsOld",
        "BotpoolWarmFloorMissed",
        "BotpoolRolloutRolledBack",
        "BotpoolHotFallbacks",
        "BotpoolScheduledBotsLate",
        "BotpoolScheduledBotsAtRisk",
        "BotpoolRequestsLimited",
        "BotpoolLoopLate",
        "BotpoolHeartbeatsNotWritten",
        "BotpoolTracesNotSent",
    }
    for rule in RULES.values():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_metrics_reference_is_up_to_date() -> None:
    written = runpy.run_path(str(ROOT / "scripts" / "metrics-reference"))
    assert written["PAGE"].read_text() == written["page"](), "run scripts/metrics-reference"


def test_no_label_is_an_id() -> None:
    labels = {label for each in MetricDefinitions().described for label in each.labels}
    assert not labels & {"bot", "slot", "container", "assignment", "correlation_id", "id", "name"}


def test_replicas_in_one_process_count_separately() -> None:
    one, other = MetricDefinitions(), MetricDefinitions()
    one.recoveries.labels("orphan").inc()
    sample = ("botpool_recoveries_total", {"reason": "orphan"})
    assert one.registry.get_sample_value(*sample) == 1
    assert other.registry.get_sample_value(*sample) is None
