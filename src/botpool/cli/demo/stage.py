"""The demo's own installation: `botpool up` in a directory that is gone afterwards."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from botpool.backends.process.directory import Directory
from botpool.cli.connection import Target
from botpool.cli.demo.cast import FIRST_START_S, LATER_START_S, PLATFORM, SLOTS
from botpool.cli.demo.emulated import EmulatedCoolify, emulated_coolify, free_port
from botpool.cli.demo.program import program
from botpool.domain.ids import ContainerId
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres

_READY = re.compile(r"^(?P<url>http://\S+)/#key=(?P<key>\S+)$", re.MULTILINE)

_LOCAL_SETTINGS = f"""\
[pools.{PLATFORM}]
max_size = {SLOTS}

[backends.process]
first_start_s = {FIRST_START_S}
start_s = {LATER_START_S}
"""


@dataclass(slots=True, kw_only=True)
class Stage:
    target: Target
    data_dir: DataDir
    coolify: EmulatedCoolify | None
    """Where the bots run; None: in processes of this machine."""
    leftovers: list[str] = field(default_factory=list)
    """What was still there when everything had been stopped. Complete after the stage closed."""

    def running_bots(self) -> list[str]:
        """Where something still runs, by the word of who runs it."""
        if self.coolify is None:
            return self.running_processes()
        count = self.coolify.counted().containers
        return [f"Coolify still runs {count} containers"] if count else []

    def running_processes(self) -> list[str]:
        """Containers in which something runs, by their locks: the kernel's word, not ours."""
        root = self.data_dir.containers
        found = [entry.name for entry in root.iterdir() if not entry.name.startswith(".")]
        return [
            f"a process still runs in {name}"
            for name in sorted(found)
            if Directory(str(root), ContainerId(name)).is_held()
        ]


@contextmanager
def stage(*, on_coolify: bool) -> Iterator[Stage]:
    """A running Botpool with nothing in it. However the block ends, nothing of it stays."""
    with tempfile.TemporaryDirectory(prefix="botpool-demo-", ignore_cleanup_errors=True) as path:
        root = Path(path)
        data_dir = DataDir.open(root / "data")
        settings, port, coolify = _LOCAL_SETTINGS, 0, None
        with ExitStack() as platform:
            if on_coolify:
                coolify = platform.enter_context(emulated_coolify(root))
                port = free_port()
                settings = coolify.settings(port)
            (root / "botpool.toml").write_text(settings)
            arguments = ["up", "--port", str(port), "--config", str(root / "botpool.toml")]
            arguments += ["--data-dir", str(data_dir.root)]
            with program("server", arguments, root) as server:
                ready = server.await_said(_READY)
                target = Target(
                    url=ready["url"], key=ready["key"], key_from="the demo's own server"
                )
                playing = Stage(target=target, data_dir=data_dir, coolify=coolify)
                yield playing
        playing.leftovers.extend(server.leftovers())
        if coolify is not None:
            playing.leftovers.extend(coolify.program.leftovers())
        playing.leftovers.extend(playing.running_processes())
        if EmbeddedPostgres(data_dir).attach() is not None:
            playing.leftovers.append("PostgreSQL still runs")
