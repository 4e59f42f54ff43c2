"""The empty image, from which containers are made that never run. Nobody has to pull it."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping

import aiodocker

IMAGE = "botpool/vacant:1"
_NO_FILES = bytes(tarfile.BLOCKSIZE * 2)
"""A layer with nothing in it: the end of an archive."""


async def load(client: aiodocker.Docker) -> None:
    """Give it to the daemon. Twice is once."""
    architecture = str((await client.version())["Arch"])
    await client.images.import_image(_archive(architecture))


def _archive(architecture: str) -> bytes:
    """In the format of `docker save`, which every version takes."""
    layer_id = hashlib.sha256(_NO_FILES).hexdigest()
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": {"botpool.vacant": "1"}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]},
            "history": [{"created_by": "botpool"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{layer_id}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [IMAGE], "Layers": [layer_name]}]
    return _tar(
        {
            config_name: config,
            layer_name: _NO_FILES,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def _tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
