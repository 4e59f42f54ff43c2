"""`/_emulator`: the hand behind the scenes. Outside Coolify's API, without key and never faulty."""

import json
from collections.abc import Callable
from typing import Any

from botpool.emulators.coolify import http
from botpool.emulators.coolify.clock import Clock, ManualClock, ScaledClock
from botpool.emulators.coolify.fault_kinds import KINDS
from botpool.emulators.coolify.faults import WrongFault
from botpool.emulators.coolify.http import Answer, Request
from botpool.emulators.coolify.world import World

PREFIX = "/_emulator"
_LONGEST_JUMP_S = 366 * 86_400


class _NotMeant(Exception):
    """The body cannot be read as what it should be; the message says why."""


class Control:
    def __init__(self, world: World, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._calls: dict[tuple[str, str], Callable[[Request], Answer]] = {
            ("GET", ""): lambda request: http.data(self._overview()),
            ("GET", "/state"): lambda request: http.data(self.state()),
            ("GET", "/faults"): lambda request: http.data(self._world.faults.as_json()),
            ("POST", "/faults"): self._set_faults,
            ("POST", "/applications"): self._put_application,
            ("GET", "/time"): lambda request: self._time(),
            ("POST", "/time"): self._set_time,
        }

    def is_meant(self, request: Request) -> bool:
        return request.path == PREFIX or request.path.startswith(f"{PREFIX}/")

    def answer(self, request: Request) -> Answer:
        path = request.path.removeprefix(PREFIX).rstrip("/")
        call = self._calls.get((request.method, path))
        if call is None:
            wrong_method = any(path == known for _, known in self._calls)
            known_calls = ", ".join(self._names())
            return http.message(405 if wrong_method else 404, f"There are: {known_calls}")
        try:
            return call(request)
        except (_NotMeant, WrongFault) as error:
            return http.message(422, str(error))

    def _names(self) -> list[str]:
        return [f"{method} {PREFIX}{path}" for method, path in self._calls]

    def _overview(self) -> dict[str, Any]:
        """For people: what can be asked here, and every fault with what it takes."""
        faults = {
            kind.name: {"does": kind.help, "aims": sorted(kind.aims), "values": kind.values}
            for kind in KINDS.values()
        }
        return {"calls": self._names(), "faults": faults}

    def state(self) -> dict[str, Any]:
        world = self._world
        running = world.running_containers
        return {
            "pulls": dict(world.deployments.pulls),
            "applications": [
                {
                    "uuid": each.uuid,
                    "name": each.name,
                    "status": each.status,
                    "running": each.running,
                    "image": each.image_and_tag,
                    "containers": sum(c.application is each for c in running),
                }
                for each in world.applications.values()
            ],
            "runningContainers": len(running),
            "orphanContainers": sum(container.application.gone for container in running),
            "openDeployments": [
                {"uuid": each.uuid, "application": each.application.uuid, "status": each.status}
                for each in world.deployments.open
            ],
            "images": sorted(world.deployments.images),
            "requestsByMinute": world.limits.requests.by_minute(world.now),
            "serverReachable": world.server_reachable,
            "version": world.version,
            "now": world.now,
        }

    def _set_faults(self, request: Request) -> Answer:
        self._world.set_faults(_json(request))
        return http.data(self._world.faults.as_json())

    def _put_application(self, request: Request) -> Answer:
        """Of others: it was there before, by whatever way."""
        wanted = _json(request)
        sorts: dict[str, type] = dict.fromkeys(("name", "image", "tag", "description"), str)
        sorts |= {"running": bool, "tags": list}
        for name, value in wanted.items():
            if name not in sorts:
                raise _NotMeant(f"{name}: not known. There are: {', '.join(sorts)}")
            if not isinstance(value, sorts[name]):
                raise _NotMeant(f"{name}: must be of the type {sorts[name].__name__}")
        if not wanted.get("name"):
            raise _NotMeant("name: is required")
        application = self._world.create_application(
            name=wanted["name"],
            image=wanted.get("image") or "somebody/else",
            tag=wanted.get("tag") or "latest",
            description=wanted.get("description"),
            tags=tuple(str(tag) for tag in wanted.get("tags", ())),
        )
        if wanted.get("running"):
            self._world.run_at_once(application)
        return http.data({"uuid": application.uuid}, 201)

    def _time(self) -> Answer:
        return http.data({"now": self._world.now, "scale": self._clock.scale})

    def _set_time(self, request: Request) -> Answer:
        wanted = _json(request)
        for name, value in wanted.items():
            if name not in ("scale", "advance"):
                raise _NotMeant(f"{name}: not known. There are: scale, advance")
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value <= _LONGEST_JUMP_S:
                raise _NotMeant(f"{name}: must be more than 0 and at most {_LONGEST_JUMP_S}")
        clock = self._clock
        if scale := wanted.get("scale"):
            if not isinstance(clock, ScaledClock):
                raise _NotMeant("scale: this clock is moved by hand")
            clock.scale = float(scale)
        if advance := wanted.get("advance"):
            if not isinstance(clock, ScaledClock | ManualClock):
                raise _NotMeant("advance: this clock cannot be moved")
            clock.advance(float(advance))
            self._world.advance(clock.now())
        return self._time()


def _json(request: Request) -> dict[str, Any]:
    try:
        content = json.loads(request.body)
    except (ValueError, RecursionError):
        raise _NotMeant("The body must be JSON.") from None
    if not isinstance(content, dict):
        raise _NotMeant("The body must be a JSON object.")
    return content
