"""Names of images, as Coolify wants them: the name and the tag apart."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    tag: str


def split(reference: str) -> Image:
    """Split `[registry[:port]/]name[:tag][@sha256:digest]`.

    Coolify joins both with a colon, so a digest becomes the tag of a name that ends in `@sha256`;
    a tag beside a digest says nothing and is dropped.
    """
    reference, _, digest = reference.partition("@")
    base, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        base, tag = reference, "latest"
    if digest:
        algorithm, _, value = digest.partition(":")
        return Image(name=f"{base}@{algorithm}", tag=value)
    return Image(name=base, tag=tag)
