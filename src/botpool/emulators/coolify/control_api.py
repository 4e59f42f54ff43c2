"""The control API below `/_emulator`: state, faults and time. Needs no token, has no faults."""

from collections.abc import Callable
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify.clock import EmulatedClock
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.fault_kinds import KINDS
from botpool.emulators.coolify.faults import InvalidFault

PREFIX = "/_emulator"
_MAX_TIME_VALUE = 366 * 86_400
_JSON = TypeAdapter(object)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _NewApplication(_Body):
    name: str = Field(min_length=1)
    image: str = "example/other"
    tag: str = "latest"
    description: str | None = None
    tags: list[str] = []
    running: bool = False


class _TimeChange(_Body):
    scale: float | None = Field(default=None, gt=0, le=_MAX_TIME_VALUE)
    advance: float = Field(default=0.0, ge=0, le=_MAX_TIME_VALUE)


class ControlApi:
    def __init__(self, coolify: EmulatedCoolify, clock: EmulatedClock) -> None:
        self._coolify = coolify
        self._clock = clock
        self._calls: dict[tuple[str, str], Callable[[httpx.Request], httpx.Response]] = {
            ("GET", ""): lambda request: http.data(self._overview()),
            ("GET", "/state"): lambda request: http.data(self._show_state()),
            ("GET", "/faults"): lambda request: http.data(self._coolify.faults.as_json()),
            ("POST", "/faults"): self._set_faults,
            ("POST", "/applications"): self._create_application,
            ("GET", "/time"): lambda request: self._show_time(),
            ("POST", "/time"): self._set_time,
        }

    def handles(self, path: str) -> bool:
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix(PREFIX).rstrip("/")
        call = self._calls.get((request.method, path))
        if call is None:
            wrong_method = any(path == known for _, known in self._calls)
            known_calls = ", ".join(self._call_names())
            return http.message(405 if wrong_method else 404, f"Known calls: {known_calls}")
        try:
            return call(request)
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            return http.message(422, "; ".join(problems))
        except (InvalidFault, ValueError) as error:
            return http.message(422, str(error))

    def _call_names(self) -> list[str]:
        return [f"{method} {PREFIX}{path}" for method, path in self._calls]

    def _overview(self) -> dict[str, Any]:
        """Describe the calls and the faults."""
        faults = {
            kind.name: {"does": kind.help, "aims": sorted(kind.selectors), "values": kind.values}
            for kind in KINDS.values()
        }
        return {"calls": self._call_names(), "faults": faults}

    def _show_state(self) -> dict[str, Any]:
        coolify = self._coolify
        running = coolify.containers.running
        return {
            "pulls": dict(coolify.deployments.pulls),
            "applications": [
                {
                    "uuid": each.uuid,
                    "name": each.name,
                    "status": each.status,
                    "running": each.running,
                    "image": each.image_and_tag,
                    "containers": sum(c.application is each for c in running),
                }
                for each in coolify.applications.values()
            ],
            "runningContainers": len(running),
            "orphanContainers": sum(container.application.deleted for container in running),
            "openDeployments": [
                {"uuid": each.uuid, "application": each.application.uuid, "status": each.status}
                for each in coolify.deployments.open
            ],
            "images": sorted(coolify.deployments.images),
            "requestsByMinute": coolify.requests_by_minute(),
            "serverReachable": coolify.server_reachable,
            "version": coolify.config.version,
            "now": coolify.now,
        }

    def _set_faults(self, request: httpx.Request) -> httpx.Response:
        self._coolify.set_faults(_JSON.validate_json(request.content))
        return http.data(self._coolify.faults.as_json())

    def _create_application(self, request: httpx.Request) -> httpx.Response:
        """Create an application as another client of Coolify would."""
        wanted = _NewApplication.model_validate_json(request.content)
        application = self._coolify.create_application(
            **wanted.model_dump(exclude={"running", "tags"}), tags=tuple(wanted.tags)
        )
        if wanted.running:
            self._coolify.run_without_deployment(application)
        return http.data({"uuid": application.uuid}, 201)

    def _show_time(self) -> httpx.Response:
        return http.data({"now": self._coolify.now, "scale": self._clock.scale})

    def _set_time(self, request: httpx.Request) -> httpx.Response:
        change = _TimeChange.model_validate_json(request.content)
        if change.scale is not None:
            if self._clock.manual:
                raise ValueError("scale: this emulator has a manual clock")
            self._clock.scale = change.scale
        self._clock.advance(change.advance)
        self._coolify.advance(self._clock.now())
        return self._show_time()
