"""The output of a bot in a Docker container, read by HTTP and by the command."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.docker_installation import docker_installation, load_image, pool
from tests.support.dockerd import Dockerd
from tests.support.server import COMMAND, client

LONG_CALL = {"joinSeconds": 0, "staySeconds": 600}
WAIT_LIMIT_S = 150.0


async def test_output_is_followed_to_its_end_and_stored(
    dockerd: Dockerd, database_url: str, tmp_path: Path
) -> None:
    settings = pool("google-meet", load_image(dockerd), 1)
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()
        (bot,) = await installed.send(1, LONG_CALL)
        await installed.wait_for_in_call(bot)
        path = f"/v1/bots/{bot['id']}"
        where = ("--url", installed.url, "--key", installed.key)
        command = await asyncio.create_subprocess_exec(
            *(COMMAND, "bot", "logs", str(bot["id"]), "--follow", *where),
            stdout=asyncio.subprocess.PIPE,
        )
        assert command.stdout is not None
        async with (
            asyncio.timeout(WAIT_LIMIT_S),
            client(installed.url, installed.key) as user,
            user.stream("GET", f"{path}/logs", params={"follow": "true"}) as response,
        ):
            lines = response.aiter_lines()
            so_far = await read_through("in call", lines)
            assert await read_through("in call", text_lines(command.stdout)) == so_far
            assert (await user.get(f"{path}/logs", params={"tail": 1})).text == "in call\n"

            assert (await user.delete(path)).status_code == 202
            rest = [line async for line in lines]
            assert rest == ["leaving", "done"]
            assert [line async for line in text_lines(command.stdout)] == rest
            assert await command.wait() == 0
            whole = "".join(f"{line}\n" for line in so_far + rest)
            assert (await user.get(f"{path}/logs")).text == whole


async def text_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    async for line in stream:
        yield line.decode().rstrip("\n")


async def read_through(last: str, lines: AsyncIterator[str]) -> list[str]:
    """Read up to that line, which must arrive while the bot still runs."""
    lines_read: list[str] = []
    while last not in lines_read:
        lines_read.append(await anext(lines))
    return lines_read
