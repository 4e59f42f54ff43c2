"""Finds the nodes that would have to pull an image if the scheduler gave them a Pod.

Node objects name their images, the largest first. Other reasons for which the scheduler may leave a
node out (room, affinity, topology) do not count here: such a node counts as cold, and starts pass
the image gate more slowly than they would have to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MAX_NAMED_IMAGES = 50
"""A node names at most so many images, by default of the kubelet. A small one may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which nodes a Pod may use."""

    selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, Any]]


def count_cold_nodes(nodes: Sequence[Mapping[str, Any]], placement: Placement, image: str) -> int:
    """Count the nodes that may get a Pod and do not have its image."""
    wanted = canonical_name(image)
    return sum(_is_usable(node, placement) and _lacks(node, wanted) for node in nodes)


def canonical_name(image: str) -> str:
    """Return the name as nodes report it: with registry, and with a digest or else a tag."""
    name, _, digest = image.partition("@")
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
        name = f"docker.io/{name}"
    path, _, last = name.rpartition("/")
    base, _, tag = last.partition(":")
    return f"{path}/{base}@{digest}" if digest else f"{path}/{base}:{tag or 'latest'}"


def _lacks(node: Mapping[str, Any], wanted: str) -> bool:
    images = node.get("status", {}).get("images") or []
    if not images or len(images) >= _MAX_NAMED_IMAGES:
        # Simulated nodes name no image, and full lists prove nothing about small images.
        return False
    return not any(
        canonical_name(name) == wanted for image in images for name in image.get("names") or []
    )


def _is_usable(node: Mapping[str, Any], placement: Placement) -> bool:
    spec, labels = node.get("spec", {}), node["metadata"].get("labels") or {}
    conditions = node.get("status", {}).get("conditions") or []
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return (
        is_ready
        and not spec.get("unschedulable")
        and all(labels.get(name) == value for name, value in placement.selector.items())
        and all(
            any(_tolerates(each, taint) for each in placement.tolerations)
            for taint in spec.get("taints") or []
            if taint["effect"] != "PreferNoSchedule"
        )
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    return toleration["key"] == taint["key"] and (
        exists or (toleration.get("value") or "") == (taint.get("value") or "")
    )
