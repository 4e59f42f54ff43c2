"""Names and labels of Pods.

A slot is a name, and each of its runs is a Pod. The Pod's name is made of the slot's name, the run
and a mark of the installation, so that a repeated create finds the Pod of the first one, and so
that two installations in one namespace never meet. Pods without our installation's label do not
exist for Botpool.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from botpool.backends.protocol import ContainerSpec
from botpool.domain.ids import AssignmentId, ContainerId

PREFIX = "botpool.dev/"
INSTALLATION_LABEL = f"{PREFIX}installation"
POOL_LABEL = f"{PREFIX}pool"
SLOT_LABEL = f"{PREFIX}slot"
ASSIGNMENT_LABEL = f"{PREFIX}assignment"
IN_CALL_LABEL = f"{PREFIX}in-call"
CORRELATION_ANNOTATION = f"{PREFIX}correlation-id"
DESCRIPTION_ANNOTATION = f"{PREFIX}description"
STOP_FINALIZER = f"{PREFIX}stop"
START_GATE = f"{PREFIX}start"
PROTECTION = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""The annotations that keep autoscalers from removing the node of a bot in a call."""

_SLOT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MARK_LENGTH = 8


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_MARK_LENGTH]


def label_value(text: str) -> str:
    """Return the text if it is a valid value of a label, else a readable part of it and a hash."""
    if _LABEL_VALUE.fullmatch(text):
        return text
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", text)[: 62 - _MARK_LENGTH].strip("-._")
    return f"{readable}-{_mark(text)}".lstrip("-")


def is_slot_name(name: str) -> bool:
    return _SLOT_NAME.fullmatch(name) is not None


def container_id_of(installation_id: str, slot: str) -> ContainerId:
    """Return the slot's container id, which is unique across installations."""
    return ContainerId(f"{installation_id}.{slot}")


def slot_of(installation_id: str, container_id: str) -> str | None:
    """Return the slot's name, or None for an id that this installation cannot have created."""
    installation, _, slot = container_id.rpartition(".")
    return slot if installation == installation_id and is_slot_name(slot) else None


def pod_name(installation_id: str, slot: str, run: AssignmentId) -> str:
    """Return the name of the Pod of a run of the slot."""
    return f"{slot}-{run}-{_mark(installation_id)}"


def labels_of(installation_id: str, spec: ContainerSpec, run: AssignmentId) -> Mapping[str, str]:
    return {
        INSTALLATION_LABEL: label_value(installation_id),
        POOL_LABEL: label_value(spec.pool_name),
        SLOT_LABEL: label_value(spec.name),
        ASSIGNMENT_LABEL: str(run),
    }


def selector(installation_id: str, *slots: str) -> str:
    """Return the label selector of the installation's Pods, or of those of some slots."""
    parts = [f"{INSTALLATION_LABEL}={label_value(installation_id)}"]
    if slots:
        parts.append(f"{SLOT_LABEL} in ({','.join(label_value(slot) for slot in slots)})")
    return ",".join(parts)


def run_of(pod: Mapping[str, Any]) -> AssignmentId | None:
    """Return the run that the Pod's label names; None if a user has removed or changed it."""
    text = (pod["metadata"].get("labels") or {}).get(ASSIGNMENT_LABEL, "")
    return AssignmentId(int(text)) if text.isascii() and text.isdecimal() else None
