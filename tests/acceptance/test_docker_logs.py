"""What a bot in a Docker container prints, as users read it: by HTTP and by the command."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.docker_installation import installed_on, loaded, pool
from tests.support.dockerd import Dockerd
from tests.support.server import COMMAND, client

STAYS = {"joinSeconds": 0, "staySeconds": 600}
PATIENCE_S = 60.0


async def test_output_is_followed_to_its_end_and_kept(
    dockerd: Dockerd, database_url: str, tmp_path: Path
) -> None:
    settings = pool("google-meet", loaded(dockerd), 1)
    async with installed_on(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()
        (bot,) = await installed.send(1, STAYS)
        await installed.in_call(bot)
        path = f"/v1/bots/{bot['id']}"
        where = ("--url", installed.url, "--key", installed.key)
        command = await asyncio.create_subprocess_exec(
            *(COMMAND, "bot", "logs", str(bot["id"]), "--follow", *where),
            stdout=asyncio.subprocess.PIPE,
        )
        assert command.stdout is not None
        async with (
            asyncio.timeout(PATIENCE_S),
            client(installed.url, installed.key) as user,
            user.stream("GET", f"{path}/logs", params={"follow": "true"}) as answer,
        ):
            heard = answer.aiter_lines()
            so_far = await through("in call", heard)
            assert await through("in call", text_lines(command.stdout)) == so_far
            assert (await user.get(f"{path}/logs", params={"tail": 1})).text == "in call\n"

            assert (await user.delete(path)).status_code == 202
            rest = [line async for line in heard]
            assert rest == ["leaving", "done"]
            assert [line async for line in text_lines(command.stdout)] == rest
            assert await command.wait() == 0
            whole = "".join(f"{line}\n" for line in so_far + rest)
            assert (await user.get(f"{path}/logs")).text == whole


async def text_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    async for line in stream:
        yield line.decode().rstrip("\n")


async def through(last: str, lines: AsyncIterator[str]) -> list[str]:
    """All up to that line, which must come while the bot still stays."""
    heard: list[str] = []
    while last not in heard:
        heard.append(await anext(lines))
    return heard
