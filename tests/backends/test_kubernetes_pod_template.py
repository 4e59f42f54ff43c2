"""The Pod of a run: restricted by default, completed by a user's template, owned by Botpool."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.backends.kubernetes import KubernetesConfig, PoolIsolation, names, pod_template
from botpool.backends.protocol import ContainerSpec, StartRequest
from botpool.domain.errors import SettingError
from botpool.domain.ids import AssignmentId, ContainerId

CONFIG = KubernetesConfig(installation_id="one")
SPEC = ContainerSpec(
    name="pool-teams-001", pool_name="teams", image="bot:1", cpus=1.5, memory_mb=512, stop_grace_s=7
)
REQUEST = StartRequest(
    container_id=ContainerId("one.pool-teams-001"),
    assignment_id=AssignmentId(11),
    correlation_id="correlation-11",
    environment={"BOT_DATA": '{"note": "$(BOTPOOL_TOKEN) costs $5"}'},
    command=("--url", "$(HOME)"),
    entrypoint=("/bot",),
)


def pod_with(template: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    checked = pod_template.check(template or {})
    return pod_template.pod_of(replace(CONFIG, pod_template=checked, **settings), SPEC, REQUEST)


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_pod_is_restricted_by_default() -> None:
    pod = pod_with()
    body, container = pod["spec"], container_of(pod)
    assert body["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert body["automountServiceAccountToken"] is False
    assert body["enableServiceLinks"] is False


def test_pod_has_the_fence_the_finalizer_and_the_labels() -> None:
    pod = pod_with()
    metadata = pod["metadata"]
    assert pod["spec"]["schedulingGates"] == [{"name": "botpool.dev/start"}]
    assert metadata["finalizers"] == ["botpool.dev/stop"]
    assert metadata["name"].startswith("pool-teams-001-11-")
    assert metadata["labels"] == {
        "botpool.dev/installation": "one",
        "botpool.dev/pool": "teams",
        "botpool.dev/slot": "pool-teams-001",
        "botpool.dev/assignment": "11",
    }
    assert metadata["annotations"] == {"botpool.dev/correlation-id": "correlation-11"}
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 7


def test_pod_waits_long_for_a_lost_node() -> None:
    tolerations = pod_with(tolerations=[{"key": "dedicated", "operator": "Exists"}])["spec"][
        "tolerations"
    ]
    assert [(each["key"], each.get("tolerationSeconds")) for each in tolerations] == [
        ("node.kubernetes.io/not-ready", 900),
        ("node.kubernetes.io/unreachable", 900),
        ("dedicated", None),
    ]


def test_container_has_the_limits_of_the_pool_and_shared_memory() -> None:
    pod = pod_with()
    container = container_of(pod)
    limits = {"cpu": "1500m", "memory": "512Mi"}
    assert container["resources"] == {"limits": limits, "requests": limits}
    assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    (volume,) = pod["spec"]["volumes"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "512Mi"}


def test_kubernetes_expands_no_value_of_a_user() -> None:
    container = container_of(pod_with())
    (variable,) = container["env"]
    assert variable["value"] == '{"note": "$$(BOTPOOL_TOKEN) costs $$5"}'
    assert container["args"] == ["--url", "$$(HOME)"]
    assert container["command"] == ["/bot"]


def test_settings_are_fields_of_the_pod() -> None:
    body = pod_with(
        service_account="bot",
        node_selector={"workload": "bots"},
        image_pull_secrets=("registry",),
        priority_class="high",
    )["spec"]
    assert body["serviceAccountName"] == "bot"
    assert body["nodeSelector"] == {"workload": "bots"}
    assert body["imagePullSecrets"] == [{"name": "registry"}]
    assert body["priorityClassName"] == "high"


def test_pool_may_keep_capabilities_and_lose_its_writable_root() -> None:
    isolation = {"teams": PoolIsolation(capabilities=("SYS_ADMIN",), read_only=True)}
    container = container_of(pod_with(isolation=isolation))
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert security["readOnlyRootFilesystem"] is True
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/dev/shm", "/tmp"]


def test_template_replaces_defaults_and_adds_to_lists() -> None:
    pod = pod_with(
        {
            "metadata": {"labels": {"team": "bots"}, "annotations": {"note": "x"}},
            "spec": {
                "hostNetwork": True,
                "securityContext": {"runAsUser": 1000},
                "tolerations": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}],
                "volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "2Gi"}}, {"name": "data"}],
                "containers": [
                    {
                        "name": "bot",
                        "env": [
                            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s"}}},
                        ],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
            },
        }
    )
    body, container = pod["spec"], container_of(pod)
    assert pod["metadata"]["labels"]["team"] == "bots"
    assert pod["metadata"]["labels"]["botpool.dev/slot"] == "pool-teams-001"
    assert body["hostNetwork"] is True
    assert body["securityContext"]["runAsUser"] == 1000
    assert body["securityContext"]["runAsNonRoot"] is True
    assert [each["key"] for each in body["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert "tolerationSeconds" not in body["tolerations"][1]
    assert body["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    assert [each["name"] for each in container["env"]] == ["KEY", "BOT_DATA"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/dev/shm", "/data"]


BOT = {"name": "bot"}


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ({"metadata": {"name": "x"}}, "metadata.name"),
        ({"metadata": {"finalizers": []}}, "metadata.finalizers"),
        ({"metadata": {"labels": {"botpool.dev/slot": "x"}}}, "metadata.labels.botpool.dev/slot"),
        (
            {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}},
            "metadata.annotations.karpenter.sh/do-not-disrupt",
        ),
        ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy"),
        ({"spec": {"schedulingGates": []}}, "spec.schedulingGates"),
        ({"spec": {"terminationGracePeriodSeconds": 1}}, "spec.terminationGracePeriodSeconds"),
        ({"spec": {"nodeName": "n1"}}, "spec.nodeName"),
        ({"spec": {"initContainers": []}}, "spec.initContainers"),
        ({"spec": {"nodeSelector": {}}}, "backends.kubernetes.node_selector"),
        ({"spec": {"containers": [BOT, {"name": "sidecar"}]}}, "a container"),
        ({"spec": {"containers": [{**BOT, "image": "x"}]}}, "spec.containers.bot.image"),
        (
            {"spec": {"containers": [{**BOT, "env": [{"name": "BOTPOOL_TOKEN"}]}]}},
            "spec.containers.bot.env.BOTPOOL_TOKEN",
        ),
        ({"status": {}}, "status"),
        ([], "should be a Pod"),
    ],
)
def test_template_with_a_field_of_botpool_is_refused_by_name(template: Any, named: str) -> None:
    with pytest.raises(SettingError) as caught:
        pod_template.check(template)
    assert caught.value.setting == "backends.kubernetes.pod_template"
    assert named in caught.value.problem


def test_template_file_with_an_error_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    with pytest.raises(SettingError, match="cannot be read"):
        pod_template.load(path)
    path.write_text("spec: [")
    with pytest.raises(SettingError, match=r"pod\.yaml is not valid YAML"):
        pod_template.load(path)
    path.write_text("spec: {hostNetwork: true}")
    assert pod_template.load(path) == {"spec": {"hostNetwork": True}}


def test_names_of_two_installations_differ() -> None:
    run = AssignmentId(11)
    ours, theirs = (names.pod_name(each, "pool-teams-001", run) for each in ("one", "two"))
    assert ours != theirs
    assert names.slot_of("one", "two.pool-teams-001") is None
    assert names.slot_of("one", "one.pool-teams-001") == "pool-teams-001"


@pytest.mark.parametrize("text", ["a" * 63, "A.b_c-9", "trailing-", "x" * 64, "ä/ö", "..", "-"])
def test_label_values_are_valid(text: str) -> None:
    value = names.label_value(text)
    assert len(value) <= 63
    assert value == names.label_value(value)
    assert value[0].isalnum()
    assert value[-1].isalnum()
