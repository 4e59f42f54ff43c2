"""The client of one daemon, made when it is first needed and kept until `close`."""

import os
from contextlib import suppress

import aiodocker
import aiohttp

from botpool.backends.docker.config import DockerConfig
from botpool.domain.errors import BackendRefused, BackendUnavailable

_CONNECT_S = 5.0


class Connection:
    def __init__(self, config: DockerConfig) -> None:
        self._config = config
        self._client: aiodocker.Docker | None = None

    def client(self) -> aiodocker.Docker:
        """Made late: a machine may get its Docker after us."""
        if self._client is None:
            self._client = connect(self._config.host)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(aiodocker.DockerError):
                await client.close()


def connect(host: str | None) -> aiodocker.Docker:
    """`DOCKER_TLS_VERIFY`, `DOCKER_CERT_PATH`, contexts and the socket are the client's.

    It lets the context of `docker context use` win over `DOCKER_HOST`; Docker's command does not.
    """
    if host is None and not os.environ.get("DOCKER_CONTEXT"):
        host = os.environ.get("DOCKER_HOST") or None
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
    try:
        return aiodocker.Docker(url=host, timeout=timeout)
    except AssertionError:
        problem = "there is no daemon's socket here; name one, such as unix:///run/docker.sock"
        raise BackendUnavailable(f"backends.docker.host (DOCKER_HOST): {problem}") from None
    except OSError as error:
        problem = f"ca.pem, cert.pem or key.pem in DOCKER_CERT_PATH cannot be read: {error}"
        raise BackendRefused("backends.docker.host", problem) from error
    except (ValueError, aiodocker.DockerError) as error:
        raise BackendRefused("backends.docker.host", f"cannot be used: {error}") from error
