"""The requests that commands send, and what they print."""

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from botpool import __version__
from botpool.cli import main
from tests.support.fake_api import bot_json, botpool, fake_api, responses, slot_json

Captured = pytest.CaptureFixture[str]
MEETING = "https://meet.google.com/abc-defg-hij"


def test_create_sends_the_given_fields_and_nothing_else() -> None:
    with fake_api(responses({"bot": bot_json()})) as server:
        assert botpool("bot", "create", MEETING) == 0
        assert (
            botpool(
                *("bot", "create", MEETING, "--name", "Scribe", "--platform", "teams"),
                *("--queue-timeout-ms", "0", "--priority", "5", "--data", '{"a": "ü\\ud800"}'),
                *("--idempotency-key", "once"),
            )
            == 0
        )
    bare, full = server.requests
    assert json.loads(bare.content) == {"meetingUrl": MEETING}
    assert bare.headers["idempotency-key"] != full.headers["idempotency-key"]
    assert json.loads(full.content) == {
        "meetingUrl": MEETING,
        "botDisplayName": "Scribe",
        "platform": "teams",
        "queueTimeoutMs": 0,
        "priority": 5,
        "botData": {"a": "ü\ud800"},
    }
    assert full.headers["idempotency-key"] == "once"
    assert full.headers["authorization"] == "Bearer bpk_test"


def test_create_reads_data_from_a_file(tmp_path: Any) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"staySeconds": 3}')
    with fake_api(responses({"bot": bot_json()})) as server:
        assert botpool("bot", "create", MEETING, "--data", f"@{file}") == 0
    assert json.loads(server.requests[0].content)["botData"] == {"staySeconds": 3}


@pytest.mark.parametrize(("end", "code"), [("DONE", 0), ("FAILED", 1), ("CANCELLED", 1)])
def test_create_wait_reports_each_status_and_exits_1_unless_done(
    end: str, code: int, capsys: Captured
) -> None:
    stages = [{"bot": bot_json(status=each)} for each in ("DEPLOYING", "IN_CALL", "IN_CALL", end)]
    with fake_api(responses(*stages)):
        assert botpool("bot", "create", MEETING, "--wait") == code
    out, err = capsys.readouterr()
    assert out == f"Bot 7 {end}\n"
    assert [line.split()[2] for line in err.splitlines()] == ["DEPLOYING", "IN_CALL", end]


def test_create_wait_tolerates_a_restart_of_the_server(capsys: Captured) -> None:
    count = iter(range(4))

    def restarting(request: httpx.Request) -> httpx.Response:
        match next(count):
            case 1:
                raise httpx.ConnectError("refused")
            case 2:
                return httpx.Response(503, json={"detail": "The database does not answer."})
            case number:
                return httpx.Response(
                    200, json={"bot": bot_json(status="DONE" if number else "IN_CALL")}
                )

    with fake_api(restarting):
        assert botpool("bot", "create", MEETING, "--wait", "--json") == 0
    assert json.loads(capsys.readouterr().out)["bot"]["status"] == "DONE"


LISTINGS: list[tuple[list[str], Any]] = [
    (["bot", "list"], {"bots": [bot_json()], "nextCursor": "7"}),
    (["bot", "show", "7"], {"bot": bot_json()}),
    (["bot", "stop", "7"], {"bot": bot_json()}),
    (["bot", "events", "7"], {"events": []}),
    (["queue"], {"queue": []}),
    (["slot", "list"], {"slots": []}),
    (["pool", "list"], {"pools": []}),
]


@pytest.mark.parametrize(("command", "body"), LISTINGS)
def test_json_option_prints_the_response_unchanged(
    command: list[str], body: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    content = json.dumps(body | {"unknown": "é\u2028"}, ensure_ascii=False, indent=3).encode()
    with fake_api(lambda _: httpx.Response(200, content=content)):
        assert botpool(*command, "--json") == 0
    assert capfdbinary.readouterr() == (content + b"\n", b"")


def test_ages_use_the_clock_of_the_server(capsys: Captured) -> None:
    answer = httpx.Response(
        200,
        json={"bots": [bot_json(createdAt="2026-03-01T10:00:00Z")], "nextCursor": None},
        headers={"date": "Sun, 01 Mar 2026 10:00:12 GMT"},
    )
    with fake_api(lambda _: answer):
        assert botpool("bot", "list") == 0
    assert "12 s ago" in capsys.readouterr().out


def test_slot_commands_accept_a_name(capsys: Captured) -> None:
    slot = slot_json(id=3, name="pool-zoom-003")
    with fake_api(responses({"slots": [slot]}, {"slot": slot})) as server:
        assert botpool("slot", "cordon", "pool-zoom-003") == 0
    assert [str(each.url.path) for each in server.requests] == ["/v1/slots", "/v1/slots/3/cordon"]
    assert capsys.readouterr().out == "Slot pool-zoom-003 is cordoned: it takes no new bots.\n"


def test_stored_key_is_not_sent_to_another_machine(tmp_path: Any, capsys: Captured) -> None:
    (tmp_path / "key").write_text("bpk_kept\n")
    ours = ["bot", "list", "--data-dir", str(tmp_path)]
    with fake_api(responses({"bots": [], "nextCursor": None})) as server:
        assert main([*ours, "--url", "http://elsewhere.example"]) == 2
        assert server.requests == []
        assert "No API key" in capsys.readouterr().err
        assert main([*ours, "--url", "http://127.0.0.1:9"]) == 0
        assert main(ours) == 0
    assert [each.headers["authorization"] for each in server.requests] == ["Bearer bpk_kept"] * 2
    assert str(server.requests[1].url).startswith("http://127.0.0.1:8700/")


def test_error_for_a_missing_key_says_how_to_get_one(tmp_path: Any, capsys: Captured) -> None:
    assert main(["bot", "list", "--data-dir", str(tmp_path)]) == 2
    line = capsys.readouterr().err
    assert str(tmp_path / "key") in line
    assert "--key or BOTPOOL_API_KEY" in line
    assert "botpool key create" in line


def test_help_imports_nothing_heavy() -> None:
    heavy = {"asyncio", "httpx", "psycopg", "pydantic", "rich.console", "structlog", "uvicorn"}
    program = (
        "import sys; from botpool.cli import main; code = main(['--help']); "
        f"sys.exit(code or ', '.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "demo" in done.stdout


def test_version_is_printed(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"botpool {__version__}\n"


def test_server_imports_no_client_of_an_unused_backend() -> None:
    program = (
        "import sys; import botpool.cli.serve_replica; "
        "sys.exit(', '.join({'aiodocker', 'aiohttp', 'httpx'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_database_starts_before_the_server_is_imported() -> None:
    program = (
        "import sys; import botpool.cli.server_process; "
        "sys.exit(', '.join({'fastapi', 'uvicorn'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        *(["bot", verb] for verb in ("create", "list", "show", "stop", "events", "logs")),
        *(["slot", verb] for verb in ("list", "show", "cordon", "uncordon", "delete")),
        *(["pool", verb] for verb in ("list", "show", "drain", "undrain")),
        *(["key", verb] for verb in ("create", "list", "revoke")),
        ["queue"],
        ["mcp"],
    ],
)
def test_help_has_an_example(command: list[str], capsys: Captured) -> None:
    assert main([*command, "--help"]) == 0
    assert f"\n  botpool {' '.join(command)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "more", "text"),
    [
        ([], None, "No bots. Send one with 'botpool bot create <meeting link>'."),
        (["--status", "FAILED"], None, "No bot matches."),
        (["--search", "x"], "100001", "No match so far. Continue with --cursor 100001"),
        (["--container", "x"], None, "No bot matches."),
        (["--slot", "pool-zoom-001"], None, "No bot matches."),
    ],
)
def test_empty_list_says_what_to_do(
    capsys: Captured, arguments: list[str], more: str | None, text: str
) -> None:
    with fake_api(lambda _: httpx.Response(200, json={"bots": [], "nextCursor": more})):
        assert botpool("bot", "list", *arguments) == 0
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize(
    ("command", "query"),
    [
        (["bot", "list", "--container", "abc"], "containerId=abc&limit=50"),
        (["bot", "list", "--slot", "pool-zoom-001"], "slotName=pool-zoom-001&limit=50"),
        (["slot", "list", "--container", "abc"], "containerId=abc&limit=500"),
        (["slot", "list", "--bot", "7"], "botId=7&limit=500"),
    ],
)
def test_lookup_sends_its_query(command: list[str], query: str) -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.query.decode())
        return httpx.Response(200, json={"bots": [], "slots": []})

    with fake_api(answer):
        assert botpool(*command) == 0
    assert sent == [query]
