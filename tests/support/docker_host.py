"""A Docker daemon that has the test image and can run containers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.bot_image import PYTHON, archive
from tests.support.components import missing
from tests.support.dockerd import CannotRun, Dockerd
from tests.support.registry import Registry

TESTS = Path(__file__).parents[1]
BOT = "bot:1"
COMPONENT = "a Docker daemon"


@contextmanager
def docker_host(*options: str) -> Iterator[Dockerd]:
    """Start a daemon. Report a missing component if this machine cannot run one."""
    with ExitStack() as stack:
        try:
            daemon = stack.enter_context(Dockerd(*options))
            prepare(daemon)
        except CannotRun as reason:
            missing(COMPONENT, str(reason))
        yield daemon


def prepare(daemon: Dockerd) -> None:
    program = (TESTS / "backends" / "container_program.py").read_bytes()
    daemon.load(archive([BOT], [PYTHON, "/bot/program.py"], {"/bot/program.py": program}))
    body = {"Image": BOT, "Cmd": [PYTHON, "-c", ""], "HostConfig": {"NetworkMode": "host"}}
    probe = daemon.call("POST", "/containers/create", body)["Id"]
    status, response = daemon.request("POST", f"/containers/{probe}/start")
    if status >= 400:
        raise CannotRun(
            f"the daemon cannot run a container: {response.decode(errors='replace')[:300]}"
        )
    ended = daemon.call("POST", f"/containers/{probe}/wait")
    if ended["StatusCode"] != 0:
        raise CannotRun(f"Python does not run in a container: {ended}")
    daemon.call("DELETE", f"/containers/{probe}")


def publish(
    daemon: Dockerd,
    registry: Registry,
    tag: str,
    program: Path,
    *,
    mb: int = 4,
    is_hollow: bool = False,
    command: Sequence[str] = (PYTHON, "/bot/bot.py"),
) -> str:
    """Push an image of that program to the registry and remove it from the daemon.

    All tags share the interpreter's layer, which the daemon keeps, so a pull fetches the rest: `mb`
    megabytes. The data of a hollow image compress well: it needs disk space but little bandwidth.
    The program is `/bot/bot.py` in the image.
    """
    image = f"{registry.address}/bot:{tag}"
    size = mb * 1024 * 1024
    ballast = bytes(size) if is_hollow else os.urandom(size)
    files = {"/bot/bot.py": program.read_bytes(), "/bot/ballast": ballast}
    daemon.load(archive([image], command, files))
    daemon.push(image, registry.credentials)
    daemon.remove_image(image)
    return image
