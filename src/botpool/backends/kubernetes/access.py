"""Access to a cluster: the service account inside a cluster, a kubeconfig file elsewhere.

The token of a service account rotates: Kubernetes replaces the file, and `Access.token` reads it
again. Credentials of a kubeconfig file that come from a program (`exec`) are asked for again when
they expire or are refused.
"""

import asyncio
import base64
import binascii
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from botpool.backends.kubernetes.config import KubernetesConfig
from botpool.domain.errors import BackendRefused, BackendUnavailable

_SETTING = "backends.kubernetes.kubeconfig"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_AGE_S = 60.0
"""How long a token from a file is used before the file is read again."""
_PROGRAM_TIMEOUT_S = 20.0


@dataclass(slots=True, kw_only=True)
class Access:
    """An API server and the credentials for it."""

    server: str
    namespace: str
    tls: ssl.SSLContext | bool = field(repr=False)
    token_file: Path | None = None
    program: Mapping[str, Any] | None = field(default=None, repr=False)
    folder: Path = Path()
    _token: str | None = field(default=None, repr=False)
    _fresh_until: float = 0.0

    async def token(self, *, renew: bool = False) -> str | None:
        """Return the bearer token; `renew` reads or requests it again."""
        if self.token_file is None and self.program is None:
            return self._token
        if renew or time.monotonic() >= self._fresh_until:
            self._token, valid_s = await self._obtain()
            self._fresh_until = time.monotonic() + valid_s
        return self._token

    async def _obtain(self) -> tuple[str, float]:
        if self.token_file is not None:
            return _read(self.token_file, _SETTING).decode().strip(), _TOKEN_AGE_S
        assert self.program is not None
        return await _run_program(self.program)


def find_access(config: KubernetesConfig) -> Access:
    """Find the cluster as kubectl does. Raises BackendRefused with the setting at fault."""
    if config.kubeconfig is not None:
        return _from_kubeconfig(config.kubeconfig, config)
    if "KUBERNETES_SERVICE_HOST" in os.environ and (_SERVICE_ACCOUNT / "token").exists():
        return _from_service_account(config)
    # KUBECONFIG may name several files; the first that exists counts.
    candidates = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(":") if each]
    candidates.append(Path.home() / ".kube" / "config")
    for path in candidates:
        if path.exists():
            return _from_kubeconfig(path, config)
    raise BackendRefused(
        _SETTING,
        "Botpool does not run inside a cluster, and there is neither KUBECONFIG nor "
        "~/.kube/config. Name a kubeconfig file",
    )


def _from_service_account(config: KubernetesConfig) -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{host}]" if ":" in host else host
    namespace = config.namespace
    if namespace is None:
        namespace = _read(_SERVICE_ACCOUNT / "namespace", _SETTING).decode().strip()
    return Access(
        server=f"https://{host}:{port}",
        namespace=namespace,
        tls=_trusting((_SERVICE_ACCOUNT / "ca.crt").read_text()),
        token_file=_SERVICE_ACCOUNT / "token",
    )


def _from_kubeconfig(path: Path, config: KubernetesConfig) -> Access:
    content = _load(path)
    wanted = config.context or content.get("current-context")
    context = _entry(content, "contexts", wanted, "context", path)
    cluster = _entry(content, "clusters", context.get("cluster"), "cluster", path)
    user = _entry(content, "users", context.get("user"), "user", path) if "user" in context else {}
    folder = path.parent
    access = Access(
        server=str(cluster.get("server", "")).rstrip("/"),
        namespace=config.namespace or context.get("namespace") or "default",
        tls=_tls(cluster, user, folder),
        token_file=folder / user["tokenFile"] if user.get("tokenFile") else None,
        program=user.get("exec"),
        folder=folder,
        _token=user.get("token"),
    )
    if not access.server:
        raise BackendRefused(_SETTING, f"{path} names no server for its context {wanted}")
    return access


def _load(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(_read(path, _SETTING))
    except yaml.YAMLError:
        raise BackendRefused(_SETTING, f"{path} is not valid YAML") from None
    if not isinstance(content, Mapping):
        raise BackendRefused(_SETTING, f"{path} is no kubeconfig file")
    return content


def _entry(
    content: Mapping[str, Any], table: str, name: object, kind: str, path: Path
) -> Mapping[str, Any]:
    entries = {each.get("name"): each.get(kind) or {} for each in content.get(table) or []}
    if name in entries:
        found: Mapping[str, Any] = entries[name]
        return found
    setting = "backends.kubernetes.context" if kind == "context" else _SETTING
    known = ", ".join(str(each) for each in entries) or "none"
    raise BackendRefused(setting, f"{path} has no {kind} {name}; it has {known}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority", folder)
    context = _trusting(authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = (_data(user, f"client-{kind}", folder) for kind in ("certificate", "key"))
    if certificate and key:
        _add_client_certificate(context, certificate, key)
    return context


def _trusting(authority: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise BackendRefused(_SETTING, f"the certificate authority is invalid: {error}") from None


def _add_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate; Python reads it only from a file."""
    with tempfile.NamedTemporaryFile() as file:  # readable by its owner only
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except ssl.SSLError as error:
            problem = f"the client certificate is invalid: {error}"
            raise BackendRefused(_SETTING, problem) from None


def _data(table: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    """Return a certificate or key, which the file contains (`-data`) or names."""
    if encoded := table.get(f"{name}-data"):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise BackendRefused(_SETTING, f"{name}-data is not valid base64") from None
    return _read(folder / table[name], _SETTING) if table.get(name) else None


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BackendRefused(setting, f"{path} cannot be read: {error.strerror}") from None


async def _run_program(program: Mapping[str, Any]) -> tuple[str, float]:
    """Run the credential program of a kubeconfig file, such as a cloud's command."""
    command = [str(program["command"]), *map(str, program.get("args") or [])]
    variables = {each["name"]: each["value"] for each in program.get("env") or []}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(), _PROGRAM_TIMEOUT_S)
        status = json.loads(output)["status"]
        token = str(status["token"])
    except OSError as error:
        raise BackendRefused(_SETTING, f"{command[0]} cannot be run: {error.strerror}") from None
    except TimeoutError:
        process.kill()
        raise BackendUnavailable(f"{command[0]} gave no credentials in time") from None
    except (ValueError, KeyError, TypeError):
        problem = errors.decode(errors="replace").strip()[-200:]
        raise BackendRefused(_SETTING, f"{command[0]} gave no token. {problem}") from None
    return token, _valid_s(status.get("expirationTimestamp"))


def _valid_s(expires: str | None) -> float:
    if not expires:
        return _TOKEN_AGE_S
    remaining_s = datetime.fromisoformat(expires).timestamp() - time.time()
    return max(0.0, remaining_s - _TOKEN_AGE_S)
