"""The client of one Docker daemon, created at the first use and kept until `close`."""

import os
from contextlib import suppress

import aiodocker
import aiohttp

from botpool.backends.docker.config import DockerConfig
from botpool.domain.errors import BackendRefused, BackendUnavailable

_CONNECT_TIMEOUT_S = 5.0


class Connection:
    def __init__(self, config: DockerConfig) -> None:
        self._config = config
        self._client: aiodocker.Docker | None = None

    def client(self) -> aiodocker.Docker:
        """Create the client late: Docker may be installed after Botpool has started."""
        if self._client is None:
            self._client = connect(self._config.host)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(aiodocker.DockerError):
                await client.close()


def connect(host: str | None) -> aiodocker.Docker:
    """Create a client; aiodocker reads the TLS settings, contexts and the default socket.

    Unlike Docker's own command, aiodocker prefers the current context to `DOCKER_HOST`.
    """
    if host is None and not os.environ.get("DOCKER_CONTEXT"):
        host = os.environ.get("DOCKER_HOST") or None
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S)
    try:
        return aiodocker.Docker(url=host, timeout=timeout)
    except AssertionError:
        problem = "no Docker socket found. Set an address such as unix:///run/docker.sock"
        raise BackendUnavailable(f"backends.docker.host (DOCKER_HOST): {problem}") from None
    except OSError as error:
        problem = f"cannot read ca.pem, cert.pem or key.pem in DOCKER_CERT_PATH: {error}"
        raise BackendRefused("backends.docker.host", problem) from error
    except (ValueError, aiodocker.DockerError) as error:
        raise BackendRefused("backends.docker.host", f"invalid address: {error}") from error
