"""Images with neither Python nor our agent: a shell script and a Node script.

Their exit code is the outcome, and the request to leave is a signal. The pools also have variables,
a command with placeholders and a secret, which must appear nowhere.
"""

import secrets
import shlex
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.docker_installation import docker_installation, pool
from tests.support.fixed_port_installation import (
    FixedPortInstallation,
    wait_for,
)
from tests.support.ports import free_port
from tests.support.script_image import program, script_image
from tests.support.server import COMMAND

SHELL = r"""
echo "meeting $MEETING as $1, ${#API_SECRET} characters"
case $MODE in
    fail) echo "no such meeting, key $API_SECRET" >&2; exit 3 ;;
    short) exit 0 ;;
esac
trap 'echo saving; $2 sleep 2; echo saved; exit 0' TERM
while :; do $2 sleep 0.2; done
"""
NODE = r"""
const { MEETING, MODE, API_SECRET } = process.env;
console.log(`meeting ${MEETING} as ${process.argv[1]}, ${API_SECRET.length} characters`);
if (MODE === "fail") {
    console.error(`no such meeting, key ${API_SECRET}`);
    process.exitCode = 3;
} else if (MODE !== "short") {
    const stay = setInterval(() => {}, 1000);
    process.on("SIGTERM", () => {
        console.log("saving");
        setTimeout(() => { console.log("saved"); clearInterval(stay); }, 2000);
    });
}
"""
SECRET = f"sentinel-{secrets.token_hex(8)}"


def pool_settings(pool_name: str, entrypoint: list[str], command: list[str], secret: Path) -> Any:
    fields = {
        "protocol": "none",
        "outcome": "exit-code",
        "leave": "signal",
        "entrypoint": shlex.join(entrypoint),
        "command": shlex.join(command),
        "env.MEETING": "{bot.meetingUrl}",
        "env.MODE": "{botData.mode}",
        "secrets.API_SECRET": str(secret),
        "max_size": "4",
    }
    return {f"pools.{pool_name}.{name}": value for name, value in fields.items()}


@asynccontextmanager
async def installation(
    backend: str, language: str, request: pytest.FixtureRequest
) -> AsyncIterator[FixedPortInstallation]:
    database_url: str = request.getfixturevalue("database_url")
    data_dir: Path = request.getfixturevalue("tmp_path")
    secret = data_dir / "secret"
    secret.write_text(SECRET + "\n")
    executable = program("busybox" if language == "shell" else "node")
    if language == "shell":
        entrypoint, command = (
            [executable, "sh", "-c"],
            [SHELL, "sh", "{bot.displayName}", executable],
        )
    else:
        entrypoint, command = [executable, "-e"], [NODE, "{bot.displayName}"]
    settings = pool_settings("zoom", entrypoint, command, secret)
    settings["agent.leave_grace_s"] = "1"
    if backend == "docker":
        dockerd = request.getfixturevalue("dockerd")
        dockerd.load(script_image(f"{language}:1", executable))
        settings = pool("zoom", f"{language}:1", 4) | settings
        async with docker_installation(dockerd, database_url, data_dir, **settings) as installed:
            yield installed
        return
    installed = FixedPortInstallation(
        database_url=database_url, data_dir=data_dir, port=free_port(), settings=settings
    )
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


@pytest.mark.parametrize("language", ["shell", "node"])
@pytest.mark.parametrize("backend", ["process", "docker"])
@pytest.mark.timeout(600)
async def test_script_runs_with_its_exit_code_as_outcome_and_leaves_by_signal(
    backend: str, language: str, request: pytest.FixtureRequest
) -> None:
    async with installation(backend, language, request) as installed:
        await installed.serve()
        (short,) = await installed.send(1, {"mode": "short"}, "zoom")
        (failing,) = await installed.send(1, {"mode": "fail"}, "zoom")
        (staying,) = await installed.send(1, {"mode": "stay"}, "zoom")

        async def stays() -> bool:
            bot = await installed.bot(staying["id"])
            is_ready = "meeting" in await installed.bot_output(staying["id"])
            return bot["status"] == "JOINING_CALL" and is_ready

        await wait_for("a bot that stays", stays, within_s=150)
        await installed.call("DELETE", f"/v1/bots/{staying['id']}")
        ended = await installed.wait_for_end(within_s=150)

        assert ended == {short["id"]: "DONE", failing["id"]: "FAILED", staying["id"]: "DONE"}
        output = await installed.bot_output(staying["id"])
        url = "https://meet.google.com/abc-defg-hij"
        assert f"meeting {url} as Botpool, {len(SECRET)} characters" in output
        assert output.endswith("saving\nsaved\n")
        failed = await installed.bot(failing["id"])
        assert failed["failureCode"] == "container_exited"
        assert "exited with code 3" in failed["failureReason"]
        assert "no such meeting, key ********" in failed["failureReason"]
        await assert_secret_is_nowhere(installed, request)


async def assert_secret_is_nowhere(
    installed: FixedPortInstallation, request: pytest.FixtureRequest
) -> None:
    shown = {
        path: str(await installed.call("GET", path))
        for path in ("/v1/bots", "/v1/slots", "/v1/pools", "/v1/pools/zoom", "/readyz")
    }
    for bot in (await installed.call("GET", "/v1/bots"))["bots"]:
        shown[f"events of {bot['id']}"] = str(await installed.events(bot["id"]))
        kept = await installed.call("GET", f"/v1/bots/{bot['id']}")
        shown[f"bot {bot['id']}"] = str(kept)
    with psycopg.connect(request.getfixturevalue("database_url")) as connection:
        outputs = connection.execute("SELECT output FROM bot_outputs").fetchall()
        assert outputs, "no output was kept"
        shown["kept output"] = str(outputs)
    shown["log"] = "".join(server.log.read_text() for server in installed.servers)
    for command in (["settings"], ["settings", "--json"], ["doctor"]):
        ran = subprocess.run(
            [COMMAND, *command],
            env=installed._environment(),
            cwd=installed.data_dir,
            capture_output=True,
            check=False,
        )
        shown[" ".join(command)] = (ran.stdout + ran.stderr).decode()
        assert ran.stdout, command
    with psycopg.connect(request.getfixturevalue("database_url")) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        for (table,) in tables:
            rows = connection.execute(f'SELECT t::text FROM "{table}" t').fetchall()
            shown[f"table {table}"] = str(rows)
    if hasattr(installed, "containers"):
        shown["labels"] = str([each["Labels"] for each in installed.containers()])
    assert [where for where, text in shown.items() if SECRET in text] == []
