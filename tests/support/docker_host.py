"""A daemon with images on it, in which a container was seen to run."""

import os
from collections.abc import Iterator
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
    """Where none can run, the test that wants it ends, and the last lines of the run say why."""
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
    probe = daemon.ask("POST", "/containers/create", body)["Id"]
    status, said = daemon.request("POST", f"/containers/{probe}/start")
    if status >= 400:
        raise CannotRun(f"it cannot run a container: {said.decode(errors='replace')[:300]}")
    ended = daemon.ask("POST", f"/containers/{probe}/wait")
    if ended["StatusCode"] != 0:
        raise CannotRun(f"Python does not run in its containers: {ended}")
    daemon.ask("DELETE", f"/containers/{probe}")


def publish(
    daemon: Dockerd,
    registry: Registry,
    tag: str,
    program: Path,
    *,
    mb: int = 4,
    is_hollow: bool = False,
) -> str:
    """Put an image of that program, so many megabytes large, into the registry and nowhere else.

    All tags share the interpreter's layer, which the daemon keeps; the rest must be pulled. A
    hollow one needs room on a disk, and hardly any on the way.
    """
    image = f"{registry.address}/bot:{tag}"
    size = mb * 1024 * 1024
    ballast = bytes(size) if is_hollow else os.urandom(size)
    files = {"/bot/bot.py": program.read_bytes(), "/bot/ballast": ballast}
    daemon.load(archive([image], [PYTHON, "/bot/bot.py"], files))
    daemon.push(image, registry.credentials)
    daemon.forget_image(image)
    return image
