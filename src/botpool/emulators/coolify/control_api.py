"""The control API below `/_emulator`: state, faults and time. Needs no token, has no faults."""

import json
from collections.abc import Callable
from typing import Any

from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify.clock import Clock, ManualClock, ScaledClock
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.fault_kinds import KINDS
from botpool.emulators.coolify.faults import InvalidFault
from botpool.emulators.coolify.http_messages import Request, Response

PREFIX = "/_emulator"
_MAX_TIME_VALUE = 366 * 86_400


class _InvalidBody(Exception):
    """The body is not valid; the message says why."""


class ControlApi:
    def __init__(self, coolify: EmulatedCoolify, clock: Clock) -> None:
        self._coolify = coolify
        self._clock = clock
        self._calls: dict[tuple[str, str], Callable[[Request], Response]] = {
            ("GET", ""): lambda request: http.data(self._overview()),
            ("GET", "/state"): lambda request: http.data(self._state()),
            ("GET", "/faults"): lambda request: http.data(self._coolify.faults.as_json()),
            ("POST", "/faults"): self._set_faults,
            ("POST", "/applications"): self._create_application,
            ("GET", "/time"): lambda request: self._time(),
            ("POST", "/time"): self._set_time,
        }

    def handles(self, request: Request) -> bool:
        return request.path == PREFIX or request.path.startswith(f"{PREFIX}/")

    def handle(self, request: Request) -> Response:
        path = request.path.removeprefix(PREFIX).rstrip("/")
        call = self._calls.get((request.method, path))
        if call is None:
            wrong_method = any(path == known for _, known in self._calls)
            known_calls = ", ".join(self._names())
            return http.message(405 if wrong_method else 404, f"Known calls: {known_calls}")
        try:
            return call(request)
        except (_InvalidBody, InvalidFault) as error:
            return http.message(422, str(error))

    def _names(self) -> list[str]:
        return [f"{method} {PREFIX}{path}" for method, path in self._calls]

    def _overview(self) -> dict[str, Any]:
        """Describe the calls and the faults."""
        faults = {
            kind.name: {"does": kind.help, "aims": sorted(kind.selectors), "values": kind.values}
            for kind in KINDS.values()
        }
        return {"calls": self._names(), "faults": faults}

    def _state(self) -> dict[str, Any]:
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
            "requestsByMinute": coolify.rate_limits.requests.by_minute(coolify.now),
            "serverReachable": coolify.server_reachable,
            "version": coolify.version,
            "now": coolify.now,
        }

    def _set_faults(self, request: Request) -> Response:
        self._coolify.set_faults(_json(request))
        return http.data(self._coolify.faults.as_json())

    def _create_application(self, request: Request) -> Response:
        """Create an application as another client of Coolify would."""
        body = _json(request)
        types: dict[str, type] = dict.fromkeys(("name", "image", "tag", "description"), str)
        types |= {"running": bool, "tags": list}
        for name, value in body.items():
            if name not in types:
                raise _InvalidBody(f"{name}: unknown. Known fields: {', '.join(types)}")
            if not isinstance(value, types[name]):
                raise _InvalidBody(f"{name}: must have the type {types[name].__name__}")
        if not body.get("name"):
            raise _InvalidBody("name: required")
        application = self._coolify.create_application(
            name=body["name"],
            image=body.get("image") or "example/other",
            tag=body.get("tag") or "latest",
            description=body.get("description"),
            tags=tuple(str(tag) for tag in body.get("tags", ())),
        )
        if body.get("running"):
            self._coolify.run_without_deployment(application)
        return http.data({"uuid": application.uuid}, 201)

    def _time(self) -> Response:
        return http.data({"now": self._coolify.now, "scale": self._clock.scale})

    def _set_time(self, request: Request) -> Response:
        body = _json(request)
        for name, value in body.items():
            if name not in ("scale", "advance"):
                raise _InvalidBody(f"{name}: unknown. Known fields: scale, advance")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value <= _MAX_TIME_VALUE:
                raise _InvalidBody(f"{name}: must be more than 0 and at most {_MAX_TIME_VALUE}")
        clock = self._clock
        if scale := body.get("scale"):
            if not isinstance(clock, ScaledClock):
                raise _InvalidBody("scale: this emulator has a manual clock")
            clock.scale = float(scale)
        if advance := body.get("advance"):
            if not isinstance(clock, ScaledClock | ManualClock):
                raise _InvalidBody("advance: this clock cannot jump")
            clock.advance(float(advance))
            self._coolify.advance(clock.now())
        return self._time()


def _json(request: Request) -> dict[str, Any]:
    try:
        content = json.loads(request.body)
    except (ValueError, RecursionError):
        raise _InvalidBody("The body must be JSON.") from None
    if not isinstance(content, dict):
        raise _InvalidBody("The body must be a JSON object.")
    return content
