"""One pull, in a process of its own: `python -m botpool.backends.docker.puller <order as JSON>`.

The lock makes it the only one of its image on this machine: a second waits, and finds the image.
Its last line of output says why it failed.
"""

import asyncio
import fcntl
import json
import os
import sys

import aiodocker
import aiohttp

from botpool.backends.docker.connection import connect
from botpool.backends.docker.credentials import credentials_for, full_name
from botpool.domain.errors import BackendError

_LONGEST_S = 2 * 3600.0
"""A registry that hangs must not keep others waiting for ever."""


async def pull(image: str, host: str | None) -> None:
    async with asyncio.timeout(_LONGEST_S), connect(host) as docker:
        try:
            await docker.images.inspect(image)
        except aiodocker.DockerError as error:
            if error.status not in (400, 404):
                raise
            credentials = credentials_for(image)
            async for _ in docker.images.pull(full_name(image), auth=credentials, stream=True):
                pass


def main(order: str) -> int:
    told = json.loads(order)
    lock = os.open(told["lock"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        asyncio.run(pull(told["image"], told["host"]))
    except aiodocker.DockerError as error:
        print(" ".join(error.message.split()))  # noqa: T201 - the answer
        return 1
    except (BackendError, aiohttp.ClientError, OSError, TimeoutError) as error:
        print(" ".join(str(error).split()) or "it took too long")  # noqa: T201 - the answer
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
