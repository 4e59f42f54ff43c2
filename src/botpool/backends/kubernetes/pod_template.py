"""The Pod of a run: Botpool's defaults, the user's template over them, and Botpool's own fields.

A user's template may replace every default, such as the security context. It may not set a field
that Botpool owns, because the fence, the confirmed stop and the cleanup depend on these fields.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from botpool.backends.kubernetes import names
from botpool.backends.kubernetes.config import KubernetesConfig, PoolIsolation
from botpool.backends.kubernetes.node_images import Placement
from botpool.backends.protocol import ContainerSpec, StartRequest
from botpool.domain.errors import SettingError

SETTING = "backends.kubernetes.pod_template"
CONTAINER = "bot"
_OWNED_METADATA = ("name", "generateName", "namespace", "uid", "finalizers", "ownerReferences")
_OWNED_SPEC = (
    "restartPolicy",
    "schedulingGates",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "nodeName",
    # The stop of a Pod is confirmed by its only container.
    "initContainers",
    "ephemeralContainers",
)
_OWNED_CONTAINER = ("image", "command", "args", "resources", "lifecycle", "restartPolicy")
_OWN_VARIABLES = ("BOT_DATA", "BOTPOOL_")
_SETTINGS = {
    "serviceAccountName": "service_account",
    "nodeSelector": "node_selector",
    "imagePullSecrets": "image_pull_secrets",
    "priorityClassName": "priority_class",
}
"""Fields with a setting of their own. `tolerations` of both are joined."""
_NODE_LOSS_TOLERATION_S = 900
"""How long Kubernetes waits before it evicts the Pods of a lost node: a bot there may record."""
_SHM, _TMP = "shm", "tmp"


def load(path: Path) -> Mapping[str, Any]:
    """Read the user's template and check it. Raises SettingError."""
    try:
        template = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingError(SETTING, f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise SettingError(SETTING, f"{path} is not valid YAML: {problem}") from None
    return check(template, str(path))


def check(template: object, origin: str = "the template") -> Mapping[str, Any]:
    """Refuse a template that sets a field of Botpool, and name the field. Raises SettingError."""
    if not isinstance(template, Mapping):
        raise SettingError(SETTING, f"{origin} should be a Pod with metadata and spec")
    if owned := next(_problems(template), None):
        raise SettingError(SETTING, f"{origin} sets {owned}")
    return template


def _problems(template: Mapping[str, Any]) -> Iterator[str]:
    for field in template.keys() - {"apiVersion", "kind", "metadata", "spec"}:
        yield f"{field}, which is no field of a Pod's template"
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        yield "metadata or spec to something that is no mapping"
        return
    own = "which Botpool sets itself"
    yield from (f"metadata.{field}, {own}" for field in _OWNED_METADATA if field in metadata)
    for table in ("labels", "annotations"):
        for name in metadata.get(table) or {}:
            if str(name).startswith(names.PREFIX) or name in names.PROTECTION:
                yield f"metadata.{table}.{name}, {own}"
    yield from (f"spec.{field}, {own}" for field in _OWNED_SPEC if field in spec)
    for field, setting in _SETTINGS.items():
        if field in spec:
            yield f"spec.{field}; use backends.kubernetes.{setting} instead"
    yield from _container_problems(spec.get("containers") or [])


def _container_problems(containers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for container in containers:
        name = container.get("name")
        if name != CONTAINER or len(containers) > 1:
            yield f"a container {name}; a Pod has one container, with the name {CONTAINER}"
        path = f"spec.containers.{CONTAINER}"
        for field in _OWNED_CONTAINER:
            if field in container:
                yield f"{path}.{field}, which Botpool takes from the pool's settings"
        for variable in container.get("env") or []:
            if str(variable.get("name", "")).startswith(_OWN_VARIABLES):
                yield f"{path}.env.{variable['name']}, which Botpool sets itself"


def pod_of(config: KubernetesConfig, spec: ContainerSpec, request: StartRequest) -> dict[str, Any]:
    """Return the Pod of one run, with the gate that keeps it from being scheduled."""
    pod = _merge(_defaults(config, spec), deepcopy(dict(config.pod_template)))
    metadata, body = pod["metadata"], pod["spec"]
    run = request.assignment_id
    metadata["name"] = names.pod_name(config.installation_id, spec.name, run)
    metadata.setdefault("labels", {}).update(names.labels_of(config.installation_id, spec, run))
    metadata.setdefault("annotations", {})[names.CORRELATION_ANNOTATION] = request.correlation_id
    metadata["finalizers"] = [names.STOP_FINALIZER]
    body["restartPolicy"] = "Never"
    body["schedulingGates"] = [{"name": names.START_GATE}]
    # At least a second: 0 deletes a Pod without waiting for its containers.
    body["terminationGracePeriodSeconds"] = max(1, math.ceil(spec.stop_grace_s))
    body["tolerations"] = [*body.get("tolerations", []), *config.tolerations]
    _fill_container(body["containers"][0], spec, request)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def placement_of(config: KubernetesConfig) -> Placement:
    """Return which nodes the Pods may use, as far as selector and tolerations say."""
    body = _merge(_from_settings(config), config.pod_template.get("spec", {}))
    tolerations = [*body.get("tolerations", []), *config.tolerations]
    return Placement(selector=body.get("nodeSelector", {}), tolerations=tolerations)


def _fill_container(container: dict[str, Any], spec: ContainerSpec, request: StartRequest) -> None:
    container["image"] = spec.image
    own = {name: {"name": name, "value": _escape(v)} for name, v in request.environment.items()}
    others = [each for each in container.get("env", []) if each["name"] not in own]
    container["env"] = [*others, *own.values()]
    if request.entrypoint:
        container["command"] = [_escape(word) for word in request.entrypoint]
    if request.command:
        container["args"] = [_escape(word) for word in request.command]
    limits = {"cpu": f"{round(spec.cpus * 1000)}m", "memory": f"{spec.memory_mb}Mi"}
    container["resources"] = {"limits": limits, "requests": dict(limits)}


def _escape(text: str) -> str:
    """Keep Kubernetes from expanding `$(NAME)` in values that users send."""
    return text.replace("$", "$$")


def _defaults(config: KubernetesConfig, spec: ContainerSpec) -> dict[str, Any]:
    isolation = config.isolation.get(spec.pool_name, PoolIsolation())
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if isolation.capabilities:
        capabilities["add"] = list(isolation.capabilities)
    security: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": capabilities}
    mounts = [{"name": _SHM, "mountPath": "/dev/shm"}]  # noqa: S108 - a mount in the container
    volumes: list[dict[str, Any]] = [
        {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": f"{config.shm_mb}Mi"}}
    ]
    if isolation.read_only:
        security["readOnlyRootFilesystem"] = True
        mounts.append({"name": _TMP, "mountPath": "/tmp"})  # noqa: S108 - in the container
        volumes.append({"name": _TMP, "emptyDir": {}})
    container = {
        "name": CONTAINER,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": security,
        "volumeMounts": mounts,
    }
    body: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [_node_loss(kind) for kind in ("not-ready", "unreachable")],
        "containers": [container],
        "volumes": volumes,
    }
    return {"metadata": {}, "spec": body | _from_settings(config)}


def _from_settings(config: KubernetesConfig) -> dict[str, Any]:
    fields = {
        "serviceAccountName": config.service_account,
        "priorityClassName": config.priority_class,
        "nodeSelector": dict(config.node_selector),
        "imagePullSecrets": [{"name": name} for name in config.image_pull_secrets],
    }
    return {name: value for name, value in fields.items() if value}


def _node_loss(kind: str) -> dict[str, Any]:
    return {
        "key": f"node.kubernetes.io/{kind}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _NODE_LOSS_TOLERATION_S,
    }


_KEYS = {"containers": "name", "volumes": "name", "volumeMounts": "mountPath", "env": "name"}
"""Lists that are merged by a key, as `kubectl` merges them; others are replaced."""


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two objects. Values of `over` win; a null there removes a default."""
    merged = dict(under)
    for name, value in over.items():
        former = merged.get(name)
        if isinstance(value, Mapping) and isinstance(former, dict):
            merged[name] = _merge(former, value)
        elif name in _KEYS and isinstance(value, list) and isinstance(former, list):
            merged[name] = _merge_lists(former, value, _KEYS[name])
        elif name == "tolerations" and isinstance(former, list):
            merged[name] = [*_unreplaced(former, value), *value]
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def _merge_lists(under: list[Any], over: list[Any], key: str) -> list[Any]:
    merged = {each[key]: each for each in under}
    for each in over:
        merged[each[key]] = _merge(merged.get(each[key], {}), each)
    return list(merged.values())


def _unreplaced(defaults: list[Any], given: list[Any]) -> list[Any]:
    """Return the default tolerations whose taint the template does not tolerate itself."""
    keys = {each.get("key") for each in given}
    return [each for each in defaults if each["key"] not in keys]
