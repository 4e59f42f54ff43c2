"""Images with neither Python nor our agent: one program of this machine and its libraries."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from tests.support.components import missing


def program(name: str) -> str:
    """Return the path of a program of this machine."""
    path = shutil.which(name)
    if path is None:
        missing(name, f"no program {name}; scripts/install-test-packages installs it")
    return path


def script_image(name: str, executable: str) -> bytes:
    """Build an image that holds the program at the path that it has on this machine."""
    layer = _layer([executable, *_libraries(executable)])
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": [executable]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["0.tar"]}]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for part, content in (
            ("0.tar", layer),
            ("config.json", json.dumps(config).encode()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            member = tarfile.TarInfo(part)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _layer(paths: list[str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as layer:
        for path in paths:
            content = Path(path).read_bytes()
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(content), 0o755
            layer.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _libraries(executable: str) -> list[str]:
    """Return the shared libraries of a program; none of a static one."""
    listed = subprocess.run(["ldd", executable], capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"(/\S+) \(0x", listed.stdout)))
