"""Configuration of the Kubernetes backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolIsolation:
    """What the Pods of one pool may do beyond the default."""

    capabilities: tuple[str, ...] = ()
    """The Linux capabilities that they keep."""
    read_only: bool = False
    """Whether their root file system is read-only, with a `/tmp` of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesConfig:
    installation_id: str
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    service_account: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()
    image_pull_secrets: Sequence[str] = ()
    priority_class: str | None = None
    pod_template: Mapping[str, Any] = field(default_factory=dict)
    """The user's template, checked by `pod_template.check`."""
    isolation: Mapping[str, PoolIsolation] = field(default_factory=dict)
    """By pool name. A pool that is not listed gets the strictest isolation."""
    shm_mb: int = 512
    pull_grace_s: float = 300.0
    """How long failing pulls of an image are retried before the start fails."""
    concurrent_pulls: int = 4
    """How many nodes may pull one image at once."""
