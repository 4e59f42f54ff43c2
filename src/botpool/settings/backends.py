"""The sections of the backends: local processes, Docker, Coolify and Kubernetes."""

import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field

from botpool.settings.declaration import Section, setting
from botpool.settings.value_types import (
    Command,
    Count,
    DockerHost,
    KubernetesName,
    KubernetesNames,
    NodeSelector,
    Seconds,
    SecondsOrZero,
    Secret,
    Tolerations,
    WebAddress,
)

BACKENDS = ("process", "docker", "coolify", "kubernetes")
DEMO_COMMAND = (sys.executable, "-m", "botpool.agent.demo")


class ProcessSettings(Section):
    """Bots as local processes, for trials and development."""

    command: Command = setting(DEMO_COMMAND, example=["python3", "-m", "acme.meet_bot"])
    """The command that runs one bot: a list of words, or one line in shell syntax. The default is
    the demo bot."""
    first_start_s: SecondsOrZero = setting(0, example=10)
    """Delay that simulates the image pull of a slot's first start."""
    start_s: SecondsOrZero = setting(0, example=1)
    """Delay that simulates each later start of a slot."""
    user: Annotated[str, Field(min_length=1, max_length=100)] | None = setting(
        None, example="botpool-bots"
    )
    """The user that runs all bots: a name or a user id. Without it, each run gets an unused user id
    of its own if Botpool runs as root, and Botpool's own user otherwise."""
    allow_shared_user: bool = setting(False, example=True)
    """Whether bots may run as Botpool's own user in an installation with a database by URL. They
    can then read its keys, its secrets and the files of other bots."""


class DockerSettings(Section):
    """The Docker engine that runs the containers."""

    host: DockerHost | None = setting(None, example="tcp://docker.internal:2376")
    """The address of the Docker engine. Without it, Botpool finds Docker as the `docker` command
    does: `DOCKER_HOST`, contexts, then the local socket."""
    network: Annotated[str, Field(min_length=1, max_length=200)] | None = setting(
        None, example="bots"
    )
    """The Docker network that the containers of all pools join. Without it, Botpool creates a
    network for each pool, in which containers cannot reach each other."""
    log_mb: Annotated[int, Field(ge=1, le=1_000_000)] = setting(50, example=200)
    """The most output that Docker keeps of each container; older output is lost."""
    tmp_mb: Annotated[int, Field(ge=1, le=1_000_000)] = setting(256, example=1_024)
    """Size of `/tmp` in a container with a read-only root file system; it counts as memory."""
    pids_limit: Count = setting(2_048, example=4_096, unit="processes")
    """The most processes and threads in one container."""
    shm_mb: Annotated[int, Field(ge=1, le=1_000_000)] = setting(512, example=1_024)
    """Size of `/dev/shm` in a container; browsers need it."""
    # At most 6: the whole call that stops a container times out after 8 s.
    stop_grace_s: Annotated[int, Field(ge=0, le=6)] = setting(5, example=3)
    """How long Docker waits between SIGTERM and SIGKILL."""


class CoolifySettings(Section):
    """The Coolify that runs the containers.

    A pool on Coolify requires `url`, `token`, `project_uuid` and `server_uuid`.
    """

    url: WebAddress | None = setting(None, example="https://coolify.acme.org")
    """The address of your Coolify, with or without `/api/v1`."""
    token: Secret | None = setting(None, example="3|Qb8hR0cQn5")
    """An API token of Coolify with the abilities read, write, deploy and read:sensitive."""
    project_uuid: str | None = setting(None, example="og888os0kwgk4s4wo8ck4ok8")
    """The Coolify project that holds the pool's applications."""
    server_uuid: str | None = setting(None, example="zs4gw0wk0g4scwcogo0k8c04")
    """The Coolify server that runs the containers."""
    environment_name: str = setting("production", example="bots")
    """The name of the environment in the Coolify project."""
    destination_uuid: str | None = setting(None, example="jk4ccog0gkcwk8sco8k0c4wk")
    """The destination on the server; required only if the server has several."""
    # One start and the observation beside it need about 40 requests.
    requests_per_minute: Annotated[int, Field(ge=40, le=1_000_000)] = setting(
        200, example=120, unit="requests/min"
    )
    """The request budget: the most requests of all replicas together to Coolify."""
    concurrent_deployments: Count | None = setting(None, example=8, unit="deployments")
    """The most deployments at a time, for all pools together. Default: the server's number of
    concurrent builds and two more."""
    status_lag_s: Seconds = setting(60, example=90)
    """How old a status from Coolify may be. Botpool waits this long before a stop counts as
    confirmed."""


class KubernetesSettings(Section):
    """The Kubernetes cluster that runs the containers, as Pods of one namespace."""

    kubeconfig: Path | None = setting(None, example="/etc/botpool/kubeconfig.yaml")
    """The kubeconfig file. Without it, Botpool uses its service account inside a cluster, and
    `KUBECONFIG` or `~/.kube/config` elsewhere."""
    context: Annotated[str, Field(min_length=1, max_length=253)] | None = setting(
        None, example="production"
    )
    """The context of the kubeconfig file; by default its current context."""
    namespace: KubernetesName | None = setting(None, example="bots")
    """The namespace of the Pods; by default that of the service account or of the context."""
    service_account: KubernetesName | None = setting(None, example="bot")
    """The service account of the Pods; by default that of the namespace. Pods get no token of
    it."""
    node_selector: NodeSelector = setting({}, example={"workload": "bots"})
    """Labels of the nodes that may run Pods."""
    tolerations: Tolerations = setting((), example=["dedicated=bots:NoSchedule"])
    """Taints of nodes that Pods tolerate, as `key=value:effect`, `key:effect` or `key`."""
    image_pull_secrets: KubernetesNames = setting((), example=["registry"])
    """Secrets of the namespace with which the nodes pull images."""
    priority_class: KubernetesName | None = setting(None, example="bots")
    """The priority class of the Pods."""
    pod_template: Path | None = setting(None, example="/etc/botpool/pod.yaml")
    """A YAML file with a Pod that Botpool completes. Botpool does not start if the file sets a
    field that Botpool sets itself."""
    concurrent_pulls: Annotated[int, Field(ge=1, le=10_000)] = setting(4, example=10, unit="nodes")
    """How many nodes may pull one image at once. While more nodes lack an image, at most so many
    Pods with it start at a time."""
    # A start needs two requests and a stop up to five.
    requests_per_second: Annotated[int, Field(ge=5, le=100_000)] = setting(
        50, example=200, unit="requests/s"
    )
    """The request budget: the most requests of all replicas together to the API server, as an
    average over a minute."""


class BackendsSettings(Section):
    """The backends, by name."""

    process: ProcessSettings = ProcessSettings()
    docker: DockerSettings = DockerSettings()
    coolify: CoolifySettings = CoolifySettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
