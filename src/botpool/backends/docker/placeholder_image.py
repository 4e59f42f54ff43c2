"""The empty image of placeholder containers, which never run. The backend loads it itself."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping

import aiodocker

IMAGE = "botpool/placeholder:1"
_EMPTY_LAYER = bytes(tarfile.BLOCKSIZE * 2)
"""An empty tar archive."""


async def load(client: aiodocker.Docker) -> None:
    """Load the image into the daemon. Loading it again changes nothing."""
    architecture = str((await client.version())["Arch"])
    await client.images.import_image(_archive(architecture))


def _archive(architecture: str) -> bytes:
    """Return the image in the format of `docker save`, which every version accepts."""
    layer_id = hashlib.sha256(_EMPTY_LAYER).hexdigest()
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": {"botpool.placeholder": "1"}},
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
            layer_name: _EMPTY_LAYER,
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
