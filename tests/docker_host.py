"""A daemon with images on it, in which a container was seen to run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bot_image import PYTHON, archive
from components import missing
from dockerd import CannotRun, Dockerd

HERE = Path(__file__).parent
BOT = "bot:1"
DEMO = "botpool-demo:1"
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
    program = HERE / "backends" / "container_program.py"
    daemon.load(archive([BOT], [PYTHON, "/bot/program.py"], {"/bot/program.py": program}))
    daemon.load(archive([DEMO], [PYTHON, "-m", "botpool.agent.demo"], {}))
    body = {"Image": DEMO, "Cmd": [PYTHON, "-c", ""], "HostConfig": {"NetworkMode": "host"}}
    probe = daemon.ask("POST", "/containers/create", body)["Id"]
    status, said = daemon.request("POST", f"/containers/{probe}/start")
    if status >= 400:
        raise CannotRun(f"it cannot run a container: {said.decode(errors='replace')[:300]}")
    ended = daemon.ask("POST", f"/containers/{probe}/wait")
    if ended["StatusCode"] != 0:
        raise CannotRun(f"Python does not run in its containers: {ended}")
    daemon.ask("DELETE", f"/containers/{probe}")
