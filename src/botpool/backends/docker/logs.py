"""Output of a bot's container, which Docker keeps until the next bot's takes its place."""

from collections.abc import AsyncGenerator

import aiohttp
from aiodocker import DockerError

from botpool.backends.docker import refusals
from botpool.backends.docker.connection import connect
from botpool.backends.docker.places import Container
from botpool.domain.errors import BackendUnavailable


async def read(
    host: str | None, container: Container, *, tail: int | None, follow: bool
) -> AsyncGenerator[bytes, None]:
    """With a client of its own, closed in the end: aiodocker keeps a stream open that is left.

    So nobody who follows a bot takes a connection away from the control plane's work.
    """
    kept = "all" if tail is None else str(tail)
    try:
        async with connect(host) as docker:
            shown = docker.containers.container(container.docker_id)
            if follow:
                async for text in shown.log(stdout=True, stderr=True, follow=True, tail=kept):
                    yield text.encode()
            else:
                for text in await shown.log(stdout=True, stderr=True, tail=kept):
                    yield text.encode()
    except DockerError as error:
        if error.status not in (404, 409):
            raise refusals.unavailable(error) from error
    except (aiohttp.ClientError, OSError) as error:
        raise BackendUnavailable(f"logs: {error}") from error
