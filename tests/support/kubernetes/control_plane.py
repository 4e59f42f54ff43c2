"""etcd, the API server, the controller manager and the scheduler of one cluster."""

import contextlib
import http.client
import signal
import socket
import ssl
from pathlib import Path

from tests.support.kubernetes.certificates import Certificates
from tests.support.kubernetes.child_processes import Child
from tests.support.kubernetes.network import Network
from tests.support.kubernetes.programs import Programs

NODE_GRACE_S = 16
"""The controller manager declares a node unreachable after this time without a report."""


class ControlPlane:
    def __init__(self, directory: Path, programs: Programs, network: Network) -> None:
        self.certificates = Certificates(directory / "pki", network.api_server)
        self._address = network.api_server
        self._authority = self.certificates.path("ca.pem")
        self._etcd_port = _free_port()
        self._etcd = Child(
            "etcd",
            directory / "etcd.log",
            [
                programs.path("etcd"),
                *("--data-dir", f"{directory}/etcd"),
                *("--listen-client-urls", f"http://127.0.0.1:{self._etcd_port}"),
                *("--advertise-client-urls", f"http://127.0.0.1:{self._etcd_port}"),
                # One member has no peers; the port is any free one.
                *("--listen-peer-urls", "http://127.0.0.1:0"),
                *("--quota-backend-bytes", str(4 << 30)),
            ],
            {},
        )
        self.api_server = Child(
            "kube-apiserver",
            directory / "kube-apiserver.log",
            [programs.path("kube-apiserver"), *self._api_server_options(network)],
            {},
        )
        self._controllers = [
            Child(
                "kube-controller-manager",
                directory / "kube-controller-manager.log",
                [
                    programs.path("kube-controller-manager"),
                    f"--kubeconfig={self.certificates.kubeconfig('controller-manager')}",
                    f"--service-account-private-key-file={self._path('service-accounts.key')}",
                    f"--root-ca-file={self._authority}",
                    "--use-service-account-credentials",
                    f"--node-monitor-grace-period={NODE_GRACE_S}s",
                    "--node-monitor-period=2s",
                    "--leader-elect=false",
                    "--secure-port=0",
                ],
                {},
            ),
            Child(
                "kube-scheduler",
                directory / "kube-scheduler.log",
                [
                    programs.path("kube-scheduler"),
                    f"--kubeconfig={self.certificates.kubeconfig('scheduler')}",
                    "--leader-elect=false",
                    "--secure-port=0",
                ],
                {},
            ),
        ]

    def start(self) -> None:
        self._etcd.start()
        self._etcd.wait_until(self._etcd_answers)
        self.start_api_server()
        for controller in self._controllers:
            controller.start()

    def start_api_server(self) -> None:
        self.api_server.start()
        self.api_server.wait_until(self._api_server_answers)

    def stop(self) -> None:
        """Kill everything: the data are not needed again."""
        for child in (*reversed(self._controllers), self.api_server, self._etcd):
            child.stop(signal.SIGKILL)

    @property
    def children(self) -> list[Child]:
        return [self._etcd, self.api_server, *self._controllers]

    def _api_server_options(self, network: Network) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--bind-address={self._address}",
            "--secure-port=443",
            f"--advertise-address={self._address}",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={network.services}",
            "--authorization-mode=Node,RBAC",
            "--anonymous-auth=true",
            "--allow-privileged",
            f"--token-auth-file={self._path('tokens.csv')}",
            f"--client-ca-file={self._authority}",
            f"--tls-cert-file={self._path('apiserver.pem')}",
            f"--tls-private-key-file={self._path('apiserver-key.pem')}",
            f"--kubelet-client-certificate={self._path('kubelet-client.pem')}",
            f"--kubelet-client-key={self._path('kubelet-client-key.pem')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._path('service-accounts.key')}",
            f"--service-account-signing-key-file={self._path('service-accounts.key')}",
            "--profiling=false",
            # Debian's etcd is too old for streaming lists; clients then use plain ones at once.
            "--feature-gates=WatchList=false",
            # A stopped API server does not wait for open watches.
            "--shutdown-delay-duration=0s",
        ]

    def _path(self, name: str) -> Path:
        return self.certificates.path(name)

    def _etcd_answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=5)
        return _is_ok(connection, "/health")

    def _api_server_answers(self) -> bool:
        trust = ssl.create_default_context(cafile=str(self._authority))
        connection = http.client.HTTPSConnection(self._address, timeout=5, context=trust)
        return _is_ok(connection, "/readyz")


def _is_ok(connection: http.client.HTTPConnection, path: str) -> bool:
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False


def _free_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port: int = free.getsockname()[1]
        return port
