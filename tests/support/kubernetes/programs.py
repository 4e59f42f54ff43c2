"""The programs of the tests' Kubernetes: our own build, and Debian's packages."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SCRIPT = Path(__file__).parents[3] / "scripts" / "build-kubernetes"
PROGRAM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
CNI_PLUGINS = Path("/usr/lib/cni")
_PACKAGES = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "openssl": "openssl",
    "ip": "iproute2",
    "unshare": "util-linux",
}


class CannotRun(Exception):
    """This machine cannot run a Kubernetes; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Where the programs are."""

    built: Path
    """The folder of kube-apiserver, kubelet and the others."""

    @classmethod
    def find(cls) -> Self:
        absent = {package for program, package in _PACKAGES.items() if _installed(program) is None}
        if not (CNI_PLUGINS / "bridge").exists():
            absent.add("containernetworking-plugins")
        if absent:
            raise CannotRun(f"install the packages {' '.join(sorted(absent))}")
        if os.geteuid() != 0:
            raise CannotRun("only root can start a node")
        where = subprocess.run([SCRIPT, "--where"], check=True, capture_output=True, text=True)
        built = Path(where.stdout.strip())
        if not (built / ".complete").exists():
            raise CannotRun("run scripts/build-kubernetes, which needs Go and some ten minutes")
        return cls(built=built)

    def path(self, program: str) -> str:
        """Return the path of a program: of our build, else of the system."""
        own = self.built / program
        found = str(own) if own.exists() else _installed(program)
        if found is None:
            raise CannotRun(f"there is no program {program}")
        return found


def _installed(program: str) -> str | None:
    return shutil.which(program, path=PROGRAM_PATH)
