"""The chart and the plain manifests, without a cluster: helm renders them."""

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from botpool.settings import load_settings
from tests.support.components import missing
from tests.support.kubernetes.programs import SCRIPT

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "botpool"
POOL = {"backend": "kubernetes", "image": "registry.example.org/bot:1", "max_size": 40}


@pytest.fixture(scope="module")
def helm() -> str:
    where = subprocess.run([SCRIPT, "--where"], check=True, capture_output=True, text=True)
    program = Path(where.stdout.strip()) / "helm"
    if not program.exists():
        missing("helm", "run scripts/build-kubernetes, which needs Go and some ten minutes")
    return str(program)


def run(helm: str, *arguments: str, **values: Any) -> subprocess.CompletedProcess[str]:
    """Run helm on the chart with these values."""
    command = [helm, *arguments, str(CHART), "--values", "-"]
    return subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, check=False
    )


def render(helm: str, **values: Any) -> str:
    rendered = run(helm, "template", "--kube-version", "1.34", "botpool", **values)
    assert rendered.returncode == 0, rendered.stderr
    return rendered.stdout


def settings_of(rendered: str) -> str:
    """Return botpool.toml of the rendered ConfigMap."""
    _, _, after = rendered.partition("  botpool.toml: |\n")
    lines = after.splitlines()
    inside = [line for line in lines[: lines.index("---")] if line.startswith("    ") or not line]
    return "\n".join(line[4:] for line in inside)


def test_lint_finds_nothing(helm: str) -> None:
    linted = run(helm, "lint", "--strict", keepImages={"enabled": True})
    assert linted.returncode == 0, linted.stdout


def test_manifests_are_those_of_the_chart(helm: str) -> None:
    printed = subprocess.run(
        [ROOT / "scripts" / "kubernetes-manifests", "--print"],
        env={"HELM": helm, "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    written = (ROOT / "deploy" / "kubernetes" / "botpool.yaml").read_text()
    assert written == printed, "run scripts/kubernetes-manifests"


def test_values_become_settings(helm: str, tmp_path: Path) -> None:
    tolerations = ["dedicated=bots:NoSchedule"]
    pool = {
        **POOL,
        "backend": "docker",
        "env": {"GREETING": 'say "hi" <&>', "EMPTY": ""},
        "cpus": 1.5,
    }
    rendered = render(
        helm,
        botNamespace="bots",
        settings={
            "pools": {"google-meet": pool},
            "backends": {"kubernetes": {"tolerations": tolerations}},
        },
    )
    text = settings_of(rendered)
    found = tomllib.loads(text)
    assert found["pools"]["google-meet"] == pool
    assert found["backends"]["kubernetes"] == {"namespace": "bots", "tolerations": tolerations}
    assert found["server"]["public_url"] == "http://botpool.default.svc:8700"
    assert type(found["pools"]["google-meet"]["max_size"]) is int
    file = tmp_path / "botpool.toml"
    file.write_text(text)
    loaded = load_settings(file)
    assert loaded.pools["google-meet"].image == POOL["image"]
    assert loaded.server.drain_s > 0


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replcias": 3}, "replcias"),
        ({"replicas": 0}, "replicas"),
        ({"settings": {"database": {"url": "postgresql://x"}}}, "url"),
        ({"settings": {"installation": {"id": "a", "secret": "s"}}}, "secret"),
        ({"settings": {"pools": {"Meet": POOL}}}, "Meet"),
        ({"ingress": {"enabled": True}}, "host"),
    ],
)
def test_wrong_values_are_refused_by_name(helm: str, values: dict[str, Any], named: str) -> None:
    refused = run(helm, "template", "--kube-version", "1.34", "botpool", **values)
    assert refused.returncode != 0
    assert named in refused.stderr


def test_optional_parts_are_off_by_default(helm: str) -> None:
    rendered = render(helm, settings={"pools": {"google-meet": POOL}})
    for kind in ("Ingress", "ServiceMonitor", "DaemonSet"):
        assert f"kind: {kind}\n" not in rendered
    everything = render(
        helm,
        settings={"pools": {"google-meet": POOL, "local": {"backend": "docker", "image": "x"}}},
        ingress={"enabled": True, "host": "botpool.example.org"},
        serviceMonitor={"enabled": True},
        keepImages={"enabled": True},
    )
    for kind in ("Ingress", "ServiceMonitor", "DaemonSet"):
        assert everything.count(f"kind: {kind}\n") == 1


def test_role_has_the_documented_permissions_only(helm: str) -> None:
    rendered = render(helm)
    role = rendered.split("kind: Role\n")[1].split("---")[0]
    assert "verbs: [get, list, watch, create, patch, delete]" in role
    assert "*" not in role
    assert "secrets" not in rendered.split("kind: ClusterRole\n")[1]
    assert "kind: ClusterRole\n" not in render(helm, rbac={"nodes": False})
