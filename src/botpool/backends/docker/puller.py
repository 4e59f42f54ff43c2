"""Pulls one image in its own process: `python -m botpool.backends.docker.puller <job as JSON>`.

A lock allows one pull per image on this machine: a second puller waits and then finds the image.
The last line of the output is the error message.
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
from botpool.backends.docker.digests import split_digest
from botpool.domain.errors import BackendError

_TIMEOUT_S = 2 * 3600.0
"""Limits how long a registry that hangs blocks other pulls of the image."""


async def pull(image: str, host: str | None) -> None:
    async with asyncio.timeout(_TIMEOUT_S), connect(host) as docker:
        try:
            await docker.images.inspect(image)
        except aiodocker.DockerError as error:
            if error.status not in (400, 404):
                raise
            credentials = credentials_for(image)
            async for _ in docker.images.pull(full_name(image), auth=credentials, stream=True):
                pass
            name, tag = split_digest(image)
            if tag is not None:
                # The tag stays usable while its registry cannot be reached.
                await docker.images.tag(full_name(image), repo=name, tag=tag)


def main(job_json: str) -> int:
    job = json.loads(job_json)
    lock = os.open(job["lock"], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        asyncio.run(pull(job["image"], job["host"]))
    except aiodocker.DockerError as error:
        print(" ".join(error.message.split()))  # noqa: T201 - the result
        return 1
    except (BackendError, aiohttp.ClientError, OSError, TimeoutError) as error:
        print(" ".join(str(error).split()) or "the pull took too long")  # noqa: T201 - the result
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
