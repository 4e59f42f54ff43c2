"""From a request to what becomes of its answer: the order of Laravel's checks, and the faults.

One way for all: sockets and clients in memory come through `Api.reply`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from botpool.emulators.coolify import application_calls, deployment_calls, http, place_calls
from botpool.emulators.coolify.bodies import Refusal
from botpool.emulators.coolify.clock import Clock
from botpool.emulators.coolify.control import Control
from botpool.emulators.coolify.endpoints import PREFIX, Endpoint, Match, match
from botpool.emulators.coolify.http import Answer, Reply, Request, Wire
from botpool.emulators.coolify.limits import Budget
from botpool.emulators.coolify.records import epoch_seconds
from botpool.emulators.coolify.world import World

Call = Callable[[World, Request, str], Answer]

_CALLS: dict[str, Call] = {
    "GET /health": lambda world, request, uuid: http.plain("OK"),
    "GET /version": lambda world, request, uuid: http.plain(world.version),
    "POST /applications/dockerimage": application_calls.create,
    "GET /applications": application_calls.list_all,
    "GET /applications/{uuid}": application_calls.show,
    "PATCH /applications/{uuid}": application_calls.update,
    "DELETE /applications/{uuid}": application_calls.delete,
    "GET /applications/{uuid}/logs": application_calls.logs,
    "GET /applications/{uuid}/envs": application_calls.list_variables,
    "PATCH /applications/{uuid}/envs/bulk": application_calls.write_variables,
    "POST /applications/{uuid}/start": deployment_calls.start,
    "POST /applications/{uuid}/restart": deployment_calls.restart,
    "POST /applications/{uuid}/stop": application_calls.stop,
    "POST /deploy": deployment_calls.deploy,
    "GET /deployments": deployment_calls.list_open,
    "GET /deployments/applications/{uuid}": deployment_calls.list_of_application,
    "GET /deployments/{uuid}": deployment_calls.show,
    "POST /deployments/{uuid}/cancel": deployment_calls.cancel,
    "GET /servers": place_calls.list_servers,
    "GET /servers/{uuid}": place_calls.show_server,
    "GET /projects": place_calls.list_projects,
    "GET /projects/{uuid}": place_calls.show_project,
    "GET /projects/{uuid}/{environment_name_or_uuid}": place_calls.show_environment,
}
_REFUSED = Reply(answer=http.page(503), wire=Wire.REFUSED)


class Api:
    def __init__(self, world: World, clock: Clock) -> None:
        self._world = world
        self._clock = clock
        self._limits = world.limits
        self._control = Control(world, clock)

    def reply(self, request: Request) -> Reply:
        world = self._world
        world.advance(self._clock.now())
        world.poll()
        if self._control.is_meant(request):
            return Reply(answer=self._control.answer(request))
        if world.refuses_connections_for_s:
            return _REFUSED
        if not request.path.startswith(f"{PREFIX}/"):
            return Reply(answer=http.page(404))
        self._limits.requests.count(world.now)
        path = request.path.removeprefix(PREFIX).rstrip("/")
        matched = match(request.method, path, before_4_2=world.before_4_2)
        reply = self._through_faults(request, matched)
        answer = self._in_client_seconds(reply.answer)
        if answer.status >= 400 and not request.wants_json:
            answer = http.page(answer.status).with_headers(answer.headers)
        return replace(reply, answer=answer)

    def _through_faults(self, request: Request, matched: Match) -> Reply:
        """What happens on the way to Coolify, in it, and on the way back."""
        if self._hit("badGateway", matched, worked=False):
            return Reply(answer=http.page(502))
        if self._hit("resetConnection", matched, worked=False):
            return Reply(answer=http.page(503), wire=Wire.RESET)
        if self._hit("serverError", matched, worked=False):
            return Reply(answer=http.message(500, "Server Error"))
        answer = self._checked(request, matched)
        if self._hit("badGateway", matched, worked=True):
            answer = http.page(502)
        if self._hit("serverError", matched, worked=True):
            answer = http.message(500, "Server Error")
        wire = Wire.WHOLE
        if self._hit("resetConnection", matched, worked=True):
            wire = Wire.RESET
        elif self._hit("halfAnswer", matched):
            wire = Wire.HALF
        slow = self._world.faults.hit("slowAnswer", **_aim(matched))
        delay_s = slow.seconds() / self._clock.scale if slow else 0.0
        return Reply(answer=answer, wire=wire, delay_s=delay_s)

    def _hit(self, name: str, matched: Match, *, worked: bool | None = None) -> bool:
        return self._world.faults.hit(name, **_aim(matched), worked=worked) is not None

    def _checked(self, request: Request, matched: Match) -> Answer:
        if matched.endpoint is None:
            return _no_such_call(request, matched)
        if matched.endpoint.ability is None:
            return self._called(request, matched.endpoint, matched.uuid)
        refusal = self._not_allowed(request, matched.endpoint)
        if refusal is None:
            return self._limited(request, matched.endpoint, matched.uuid)
        return self._failure_counted(refusal)

    def _not_allowed(self, request: Request, endpoint: Endpoint) -> Answer | None:
        faults = self._world.faults
        expected = f"Bearer {self._world.nature.token}"
        given = request.headers.get("authorization", "")
        if given != expected or faults.lasting("tokenExpired"):
            return http.message(401, "Unauthenticated.")
        if faults.lasting("apiDisabled"):
            return http.message(403, "API is disabled.")
        if faults.lasting("addressNotAllowed"):
            return http.message(403, "You are not allowed to access the API.")
        missing = faults.lasting("missingAbility")
        if missing and missing.text("ability") == endpoint.ability:
            return http.message(403, f"Missing required permissions: {endpoint.ability}")
        return None

    def _limited(self, request: Request, endpoint: Endpoint, uuid: str) -> Answer:
        world = self._world
        budget = self._limits.calls.count(world.now, world.nature.requests_per_minute)
        forced = world.faults.hit("rateLimited", application=uuid or None, endpoint=endpoint.name)
        if forced:
            resets_at = world.now + forced.seconds("retryAfter")
            budget = Budget(limit=budget.limit, remaining=0, resets_at=resets_at, exceeded=True)
        headers = {
            "X-RateLimit-Limit": str(budget.limit),
            "X-RateLimit-Remaining": str(budget.remaining),
        }
        if budget.exceeded:
            return self._too_many(budget).with_headers(headers)
        return self._failure_counted(self._called(request, endpoint, uuid)).with_headers(headers)

    def _called(self, request: Request, endpoint: Endpoint, uuid: str) -> Answer:
        try:
            return _CALLS[endpoint.name](self._world, request, uuid)
        except Refusal as refusal:
            return refusal.answer

    def _failure_counted(self, answer: Answer) -> Answer:
        """Some versions also limit calls that fail."""
        fault = self._world.faults.lasting("failedCallLimit")
        if fault is None or answer.status < 400:
            return answer
        budget = self._limits.failed_calls.count(self._world.now, int(fault.seconds("limit")))
        return self._too_many(budget) if budget.exceeded else answer

    def _too_many(self, budget: Budget) -> Answer:
        return http.message(429, "Too Many Attempts.").with_headers(
            {
                "Retry-After": str(math.ceil(budget.resets_at - self._world.now)),
                "X-RateLimit-Reset": str(epoch_seconds(budget.resets_at)),
            }
        )

    def _in_client_seconds(self, answer: Answer) -> Answer:
        """The client does not know the scale of our time: it is told to wait its own seconds."""
        wait_s = answer.headers.get("Retry-After")
        if wait_s is None:
            return answer
        scaled = math.ceil(int(wait_s) / self._clock.scale)
        return answer.with_headers({"Retry-After": str(max(scaled, 1))})


class _Aim(TypedDict):
    application: str | None
    endpoint: str | None


def _aim(matched: Match) -> _Aim:
    endpoint = matched.endpoint.name if matched.endpoint else None
    return {"application": matched.uuid or None, "endpoint": endpoint}


def _no_such_call(request: Request, matched: Match) -> Answer:
    if not matched.allowed_methods:
        return http.message(404, "Not found.", docs="https://coolify.io/docs")
    route, allowed = request.path.removeprefix("/"), ", ".join(matched.allowed_methods)
    text = f"The {request.method} method is not supported for route {route}."
    answer = http.message(405, f"{text} Supported methods: {allowed}.")
    return answer.with_headers({"Allow": allowed})
