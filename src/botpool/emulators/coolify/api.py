"""Coolify's API: routes requests to handlers, in the order of Laravel's checks, with faults.

The socket server and the in-memory transport both call `Api.handle`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from botpool.emulators.coolify import application_handlers as applications
from botpool.emulators.coolify import deployment_handlers as deployments
from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify import server_handlers as servers
from botpool.emulators.coolify.clock import Clock
from botpool.emulators.coolify.control_api import ControlApi
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.endpoints import PREFIX, Endpoint, Match, match
from botpool.emulators.coolify.http_messages import (
    Delivery,
    Request,
    RequestRejected,
    Response,
    Transmission,
)
from botpool.emulators.coolify.rate_limits import RateLimitState
from botpool.emulators.coolify.records import epoch_seconds

Handler = Callable[[EmulatedCoolify, Request, str], Response]

_HANDLERS: dict[str, Handler] = {
    "GET /health": lambda coolify, request, uuid: http.plain_text("OK"),
    "GET /version": lambda coolify, request, uuid: http.plain_text(coolify.version),
    "POST /applications/dockerimage": applications.create,
    "GET /applications": applications.list_all,
    "GET /applications/{uuid}": applications.show,
    "PATCH /applications/{uuid}": applications.update,
    "DELETE /applications/{uuid}": applications.delete,
    "GET /applications/{uuid}/logs": applications.logs,
    "GET /applications/{uuid}/envs": applications.list_variables,
    "PATCH /applications/{uuid}/envs/bulk": applications.write_variables,
    "POST /applications/{uuid}/start": deployments.start,
    "POST /applications/{uuid}/restart": deployments.restart,
    "POST /applications/{uuid}/stop": applications.stop,
    "POST /deploy": deployments.deploy,
    "GET /deployments": deployments.list_open,
    "GET /deployments/applications/{uuid}": deployments.list_of_application,
    "GET /deployments/{uuid}": deployments.show,
    "POST /deployments/{uuid}/cancel": deployments.cancel,
    "GET /servers": servers.list_servers,
    "GET /servers/{uuid}": servers.show_server,
    "GET /projects": servers.list_projects,
    "GET /projects/{uuid}": servers.show_project,
    "GET /projects/{uuid}/{environment_name_or_uuid}": servers.show_environment,
}
_REFUSED = Delivery(response=http.html_page(503), transmission=Transmission.REFUSED)


class Api:
    def __init__(self, coolify: EmulatedCoolify, clock: Clock) -> None:
        self._coolify = coolify
        self._clock = clock
        self._faults = coolify.faults
        self._rate_limits = coolify.rate_limits
        self._control = ControlApi(coolify, clock)

    def handle(self, request: Request) -> Delivery:
        coolify = self._coolify
        coolify.advance(self._clock.now())
        if self._control.handles(request):
            return Delivery(response=self._control.handle(request))
        if coolify.refuses_connections:
            return _REFUSED
        if not request.path.startswith(f"{PREFIX}/"):
            return Delivery(response=http.html_page(404))
        self._rate_limits.requests.count(coolify.now)
        path = request.path.removeprefix(PREFIX).rstrip("/")
        matched = match(request.method, path, before_4_2=coolify.before_4_2)
        delivery = self._handle_with_faults(request, matched)
        response = self._scale_retry_after(delivery.response)
        if response.status >= 400 and not request.wants_json:
            response = http.html_page(response.status).with_headers(response.headers)
        return replace(delivery, response=response)

    def _handle_with_faults(self, request: Request, matched: Match) -> Delivery:
        """Apply the faults before, during and after the call."""
        if self._triggers("badGateway", matched, worked=False):
            return Delivery(response=http.html_page(502))
        if self._triggers("resetConnection", matched, worked=False):
            return Delivery(response=http.html_page(503), transmission=Transmission.RESET)
        if self._triggers("serverError", matched, worked=False):
            return Delivery(response=http.message(500, "Server Error"))
        response = self._authorize_and_call(request, matched)
        if self._triggers("badGateway", matched, worked=True):
            response = http.html_page(502)
        if self._triggers("serverError", matched, worked=True):
            response = http.message(500, "Server Error")
        transmission = Transmission.COMPLETE
        if self._triggers("resetConnection", matched, worked=True):
            transmission = Transmission.RESET
        elif self._triggers("halfAnswer", matched):
            transmission = Transmission.TRUNCATED
        slow = self._faults.trigger("slowAnswer", **_target(matched))
        delay_s = slow.number() / self._clock.scale if slow else 0.0
        return Delivery(response=response, transmission=transmission, delay_s=delay_s)

    def _triggers(self, name: str, matched: Match, *, worked: bool | None = None) -> bool:
        return self._faults.trigger(name, **_target(matched), worked=worked) is not None

    def _authorize_and_call(self, request: Request, matched: Match) -> Response:
        if matched.endpoint is None:
            return _unknown_call(request, matched)
        if matched.endpoint.ability is None:
            return self._call(request, matched.endpoint, matched.uuid)
        if error := self._authorization_error(request, matched.endpoint):
            return self._count_failure(error)
        return self._call_within_rate_limit(request, matched.endpoint, matched.uuid)

    def _authorization_error(self, request: Request, endpoint: Endpoint) -> Response | None:
        expected = f"Bearer {self._coolify.config.token}"
        given = request.headers.get("authorization", "")
        if given != expected or self._faults.active("tokenExpired"):
            return http.message(401, "Unauthenticated.")
        if self._faults.active("apiDisabled"):
            return http.message(403, "API is disabled.")
        if self._faults.active("addressNotAllowed"):
            return http.message(403, "You are not allowed to access the API.")
        missing = self._faults.active("missingAbility")
        if missing and missing.text("ability") == endpoint.ability:
            return http.message(403, f"Missing required permissions: {endpoint.ability}")
        return None

    def _call_within_rate_limit(self, request: Request, endpoint: Endpoint, uuid: str) -> Response:
        now = self._coolify.now
        state = self._rate_limits.calls.count(now, self._coolify.config.requests_per_minute)
        forced = self._faults.trigger(
            "rateLimited", application=uuid or None, endpoint=endpoint.name
        )
        if forced:
            resets_at = now + forced.number("retryAfter")
            state = replace(state, remaining=0, resets_at=resets_at, exceeded=True)
        headers = {
            "X-RateLimit-Limit": str(state.limit),
            "X-RateLimit-Remaining": str(state.remaining),
        }
        if state.exceeded:
            return self._too_many_requests(state).with_headers(headers)
        return self._count_failure(self._call(request, endpoint, uuid)).with_headers(headers)

    def _call(self, request: Request, endpoint: Endpoint, uuid: str) -> Response:
        try:
            return _HANDLERS[endpoint.name](self._coolify, request, uuid)
        except RequestRejected as rejected:
            return rejected.response

    def _count_failure(self, response: Response) -> Response:
        """Apply the limit of failed calls, which some versions of Coolify have."""
        fault = self._faults.active("failedCallLimit")
        if fault is None or response.status < 400:
            return response
        limit = int(fault.number("limit"))
        state = self._rate_limits.failed_calls.count(self._coolify.now, limit)
        return self._too_many_requests(state) if state.exceeded else response

    def _too_many_requests(self, state: RateLimitState) -> Response:
        return http.message(429, "Too Many Attempts.").with_headers(
            {
                "Retry-After": str(math.ceil(state.resets_at - self._coolify.now)),
                "X-RateLimit-Reset": str(epoch_seconds(state.resets_at)),
            }
        )

    def _scale_retry_after(self, response: Response) -> Response:
        """Convert `Retry-After` from emulated to real seconds, at least 1."""
        wait_s = response.headers.get("Retry-After")
        if wait_s is None:
            return response
        scaled = math.ceil(int(wait_s) / self._clock.scale)
        return response.with_headers({"Retry-After": str(max(scaled, 1))})


class _Target(TypedDict):
    application: str | None
    endpoint: str | None


def _target(matched: Match) -> _Target:
    endpoint = matched.endpoint.name if matched.endpoint else None
    return {"application": matched.uuid or None, "endpoint": endpoint}


def _unknown_call(request: Request, matched: Match) -> Response:
    if not matched.allowed_methods:
        return http.message(404, "Not found.", docs="https://coolify.io/docs")
    route, allowed = request.path.removeprefix("/"), ", ".join(matched.allowed_methods)
    text = f"The {request.method} method is not supported for route {route}."
    response = http.message(405, f"{text} Supported methods: {allowed}.")
    return response.with_headers({"Allow": allowed})
