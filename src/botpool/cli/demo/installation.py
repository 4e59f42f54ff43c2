"""The installation of the demo: `botpool up` in a temporary directory."""

import json
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from botpool.backends.process.container_directory import ContainerDirectory
from botpool.cli.demo.child_process import child_process
from botpool.cli.demo.emulated_coolify import EmulatedCoolify, emulated_coolify, free_port
from botpool.cli.demo.scenario import FIRST_START_S, LATER_START_S, PLATFORM, SLOTS
from botpool.cli.errors import UsageError
from botpool.domain.ids import ContainerId
from botpool.store.data_dir import DataDir
from botpool.store.embedded import EmbeddedPostgres
from botpool.store.migrator import migrate

_READY = re.compile(r"^(?P<url>http://\S+)/$", re.MULTILINE)

_LOCAL_SETTINGS = f"""\
[pools.{PLATFORM}]
max_size = {SLOTS}

[backends.process]
first_start_s = {FIRST_START_S}
start_s = {LATER_START_S}
allow_shared_user = true
"""


_DATABASE_SETTINGS = """
[database]
url = {url}

[installation]
id = "demo-{name}"
secret = "{secret}"
"""


@dataclass(slots=True, kw_only=True)
class DemoInstallation:
    """A running Botpool for the demo."""

    url: str
    key: str
    data_dir: DataDir
    coolify: EmulatedCoolify | None
    """The backend of the bots; None: local processes."""
    leftovers: list[str] = field(default_factory=list)
    """Problems found after everything was stopped."""

    def running_bots(self) -> list[str]:
        """A problem for each container that still runs, as the backend reports it."""
        if self.coolify is None:
            return self.running_processes()
        count = self.coolify.counts().containers
        return [f"Coolify still runs {count} containers"] if count else []

    def running_processes(self) -> list[str]:
        """A problem for each container directory that a process still locks."""
        root = self.data_dir.containers
        found = [entry.name for entry in root.iterdir() if not entry.name.startswith(".")]
        return [
            f"a process still runs in {name}"
            for name in sorted(found)
            if ContainerDirectory(str(root), ContainerId(name)).is_running()
        ]


@contextmanager
def demo_installation(*, on_coolify: bool, database_url: str | None) -> Iterator[DemoInstallation]:
    """Run an empty Botpool for the block, then stop it and remove its directory."""
    with tempfile.TemporaryDirectory(prefix="botpool-demo-", ignore_cleanup_errors=True) as path:
        root = Path(path)
        data_dir = DataDir.open(root / "data")
        settings, port, coolify = _LOCAL_SETTINGS, 0, None
        with ExitStack() as stack:
            if on_coolify:
                coolify = stack.enter_context(emulated_coolify(root))
                port = free_port()
                settings = coolify.settings(port)
            if database_url is not None:
                settings += _prepare_database(database_url)
            (root / "botpool.toml").write_text(settings)
            arguments = ["up", "--port", str(port), "--config", str(root / "botpool.toml")]
            arguments += ["--data-dir", str(data_dir.root)]
            with child_process("server", arguments, root) as server:
                ready = server.wait_for_output(_READY)
                installation = DemoInstallation(
                    url=ready["url"],
                    key=data_dir.key.read_text().strip(),
                    data_dir=data_dir,
                    coolify=coolify,
                )
                yield installation
        installation.leftovers.extend(server.exit_problems())
        if coolify is not None:
            installation.leftovers.extend(coolify.process.exit_problems())
        installation.leftovers.extend(installation.running_processes())
        if EmbeddedPostgres(data_dir).attach() is not None:
            installation.leftovers.append("PostgreSQL still runs")


def _prepare_database(url: str) -> str:
    """Create the schema in an empty database, and return the settings for it."""
    if not migrate(url):
        raise UsageError("--database: the demo needs an empty database; this one has a schema")
    name, secret = secrets.token_hex(4), secrets.token_hex(32)
    return _DATABASE_SETTINGS.format(url=json.dumps(url), name=name, secret=secret)
