"""A service account with the documented Role, and a kubeconfig file with its token."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.support.kubernetes.cluster import Cluster

POD_VERBS = ("get", "list", "watch", "create", "patch", "delete")
_NAME = "botpool"
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"


def create_role(cluster: Cluster, namespace: str) -> None:
    """Create a service account that has the documented Role and nothing else."""
    request = cluster.kubectl.request
    request(
        "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": _NAME}}
    )
    request(
        "POST",
        f"{_RBAC.format(namespace)}/roles",
        {"metadata": {"name": _NAME}, "rules": _rules(POD_VERBS, ("get",))},
    )
    request(
        "POST",
        f"{_RBAC.format(namespace)}/rolebindings",
        {
            "metadata": {"name": _NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": namespace}],
        },
    )


def change_role(
    cluster: Cluster, namespace: str, pod_verbs: Sequence[str], log_verbs: Sequence[str]
) -> None:
    cluster.kubectl.request(
        "PATCH",
        f"{_RBAC.format(namespace)}/roles/{_NAME}",
        {"rules": _rules(pod_verbs, log_verbs)},
        "application/merge-patch+json",
    )


def _rules(pod_verbs: Sequence[str], log_verbs: Sequence[str]) -> list[dict[str, list[str]]]:
    verbs = {"pods": pod_verbs, "pods/log": log_verbs, "events": ("list",)}
    return [
        {"apiGroups": [""], "resources": [resource], "verbs": list(allowed)}
        for resource, allowed in verbs.items()
        if allowed
    ]


def token(cluster: Cluster, namespace: str) -> str:
    """Return a new token of the service account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{_NAME}/token"
    created = cluster.kubectl.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    found: str = created["status"]["token"]
    return found


def write_kubeconfig(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """Write a kubeconfig file that reads the token from the file `token` beside it."""
    admin = yaml.safe_load(cluster.kubeconfig.read_text())
    (folder / "token").write_text(token(cluster, namespace))
    content = {
        "current-context": "role",
        "contexts": [
            {
                "name": "role",
                "context": {"cluster": "test", "user": "role", "namespace": namespace},
            }
        ],
        "clusters": [{"name": "test", "cluster": admin["clusters"][0]["cluster"]}],
        "users": [{"name": "role", "user": {"tokenFile": "token"}}],
    }
    path = folder / "kubeconfig.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
