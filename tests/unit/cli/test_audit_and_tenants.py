"""`botpool audit` and `tenant list`, the summaries of commands, and where they find the server."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from botpool.cli import main, output
from botpool.cli.tenants import _table
from botpool.domain.ids import TenantId
from botpool.domain.tenants import Tenant
from tests.support.fake_api import botpool, fake_api, responses

Captured = pytest.CaptureFixture[str]
ENTRY = {
    "id": 1,
    "at": "2026-11-18T04:00:00Z",
    "actor": "ops",
    "actorKeyId": 2,
    "tenant": "default",
    "action": "key.create",
    "target": "key 3",
    "before": None,
    "after": {"name": "ci"},
    "address": "192.0.2.1",
    "correlationId": "c",
}


def test_audit_shows_who_did_what_and_from_where(capsys: Captured) -> None:
    with fake_api(responses({"entries": [ENTRY]})) as server:
        assert botpool("audit", "--actor", "ops", "--action", "key.create") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["TIME", "ACTOR", "ACTION", "TARGET", "ADDRESS"]
    assert "ops" in out
    assert out.splitlines()[-1].split()[-4:] == ["key.create", "key", "3", "192.0.2.1"]
    query = dict(server.requests[0].url.params)
    assert (query["actor"], query["action"]) == ("ops", "key.create")


def test_audit_names_the_filters_that_match_nothing(capsys: Captured) -> None:
    with fake_api(responses({"entries": []})):
        assert botpool("audit", "--action", "key.creat", "--tenant", "sales") == 0
    assert " ".join(capsys.readouterr().out.split()) == (
        "No recorded action matches --action 'key.creat' and --tenant 'sales'. "
        "'botpool audit' lists all actions."
    )


def test_audit_without_filters_says_that_nothing_is_recorded(capsys: Captured) -> None:
    with fake_api(responses({"entries": []})):
        assert botpool("audit") == 0
    assert capsys.readouterr().out == "No action is recorded.\n"


@pytest.mark.parametrize(
    "group",
    [(), ("bot",), ("slot",), ("pool",), ("key",), ("tenant",), ("secret",), ("import",)],
    ids=" ".join,
)
def test_no_summary_of_a_command_is_cut(
    group: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main([*group, "--help"])
    commands = capsys.readouterr().out.partition("Commands:")[2]
    assert commands
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


def test_help_of_a_quota_says_what_happens_above_it(capsys: Captured) -> None:
    main(["tenant", "set", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "Above --max-live, new bots wait in the queue" in out


def test_command_finds_the_server_that_runs_on_another_port(
    tmp_path: Path, capsys: Captured
) -> None:
    data = tmp_path / ".botpool"
    data.mkdir()
    (data / "key").write_text("bpk_test\n")
    (data / "address").write_text("http://127.0.0.1:9\n")
    assert main(["pool", "list"]) == 1
    assert "http://127.0.0.1:9" in capsys.readouterr().err


def test_tenant_list_shows_quotas_beside_counts(capsys: Captured) -> None:
    tenant = Tenant(
        id=TenantId(2),
        name="sales",
        weight=2,
        max_live=5,
        max_queued=None,
        max_booked=None,
        posts_per_minute=30,
        created_at=datetime(2026, 11, 18, tzinfo=UTC),
        live=3,
        queued=0,
    )
    output.show(_table([tenant]))
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "WEIGHT", "LIVE", "QUEUED", "POSTS", "PER", "MINUTE"]
    assert row.split() == ["sales", "2", "3/5", "0", "at", "most", "30"]
