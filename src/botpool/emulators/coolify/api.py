"""Coolify's API: passes requests to handlers, in the order of Laravel's checks, with faults.

The socket server and the in-memory transport both call `Api.handle`.
"""

import math
from dataclasses import replace

import httpx

# The imports of the handlers declare their endpoints.
from botpool.emulators.coolify import (  # noqa: F401
    application_handlers,
    deployment_handlers,
    server_handlers,
)
from botpool.emulators.coolify import http_messages as http
from botpool.emulators.coolify.clock import EmulatedClock
from botpool.emulators.coolify.control_api import ControlApi
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.endpoints import PREFIX, Ability, Endpoint, Match, match
from botpool.emulators.coolify.http_messages import Delivery, RequestRejected, Transmission
from botpool.emulators.coolify.rate_limits import RateLimitState
from botpool.emulators.coolify.records import epoch_seconds

_REFUSED = Delivery(response=http.html_page(503), transmission=Transmission.REFUSED)


class Api:
    def __init__(self, coolify: EmulatedCoolify, clock: EmulatedClock) -> None:
        self._coolify = coolify
        self._clock = clock
        self._faults = coolify.faults
        self._control = ControlApi(coolify, clock)

    def handle(self, request: httpx.Request) -> Delivery:
        coolify, path = self._coolify, request.url.path
        coolify.advance(self._clock.now())
        if self._control.handles(path):
            return Delivery(response=self._control.handle(request))
        if coolify.refuses_connections:
            return _REFUSED
        if not path.startswith(f"{PREFIX}/"):
            return Delivery(response=http.html_page(404))
        coolify.count_request()
        matched = match(request.method, path.removeprefix(PREFIX).rstrip("/"))
        delivery = self._handle_with_faults(request, matched)
        response = delivery.response
        self._scale_retry_after(response)
        if response.is_error and not _wants_json(request):
            page = http.html_page(response.status_code)
            page.headers.update({**response.headers, **page.headers})
            response = page
        return replace(delivery, response=response)

    def _handle_with_faults(self, request: httpx.Request, matched: Match) -> Delivery:
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

    def _triggers(self, name: str, matched: Match, **more: bool) -> bool:
        return self._faults.trigger(name, **_target(matched), **more) is not None

    def _authorize_and_call(self, request: httpx.Request, matched: Match) -> httpx.Response:
        if matched.endpoint is None:
            return _unknown_call(request, matched)
        if matched.endpoint.ability is None:
            return self._call(request, matched.endpoint, matched.uuid)
        if error := self._authorization_error(request, matched.endpoint):
            return self._count_failure(error)
        return self._call_within_rate_limit(request, matched, matched.endpoint)

    def _authorization_error(
        self, request: httpx.Request, endpoint: Endpoint
    ) -> httpx.Response | None:
        expected = f"Bearer {self._coolify.config.token}"
        given = request.headers.get("authorization", "")
        if given != expected or self._faults.active("tokenExpired"):
            return http.message(401, "Unauthenticated.")
        if self._faults.active("apiDisabled"):
            return http.message(403, "API is disabled.")
        if self._faults.active("addressNotAllowed"):
            return http.message(403, "You are not allowed to access the API.")
        if self._faults.active("notTeamAdmin") and endpoint.ability is not Ability.READ:
            return http.message(403, "This action is unauthorized.")
        missing = self._faults.active("missingAbility")
        if missing and missing.text("ability") == endpoint.ability:
            return http.message(403, f"Missing required permissions: {endpoint.ability}")
        return None

    def _call_within_rate_limit(
        self, request: httpx.Request, matched: Match, endpoint: Endpoint
    ) -> httpx.Response:
        now = self._coolify.now
        state = self._coolify.calls.count(now, self._coolify.config.requests_per_minute)
        if forced := self._faults.trigger("rateLimited", **_target(matched)):
            resets_at = now + forced.number("retryAfter")
            state = replace(state, remaining=0, resets_at=resets_at, exceeded=True)
        if state.exceeded:
            response = self._too_many_requests(state)
        else:
            response = self._count_failure(self._call(request, endpoint, matched.uuid))
        response.headers["X-RateLimit-Limit"] = str(state.limit)
        response.headers["X-RateLimit-Remaining"] = str(state.remaining)
        return response

    def _call(self, request: httpx.Request, endpoint: Endpoint, uuid: str) -> httpx.Response:
        try:
            return endpoint.handler(self._coolify, request, uuid)
        except RequestRejected as rejected:
            return rejected.response

    def _count_failure(self, response: httpx.Response) -> httpx.Response:
        """Apply the limit of failed calls, which some versions of Coolify have."""
        fault = self._faults.active("failedCallLimit")
        if fault is None or not response.is_error:
            return response
        limit = int(fault.number("limit"))
        state = self._coolify.failed_calls.count(self._coolify.now, limit)
        return self._too_many_requests(state) if state.exceeded else response

    def _too_many_requests(self, state: RateLimitState) -> httpx.Response:
        response = http.message(429, "Too Many Attempts.")
        wait_s = state.resets_at - self._coolify.now
        response.headers["Retry-After"] = str(math.ceil(wait_s))
        response.headers["X-RateLimit-Reset"] = str(epoch_seconds(state.resets_at))
        return response

    def _scale_retry_after(self, response: httpx.Response) -> None:
        """Convert `Retry-After` from emulated to real seconds, at least 1."""
        if wait_s := response.headers.get("Retry-After"):
            scaled = math.ceil(int(wait_s) / self._clock.scale)
            response.headers["Retry-After"] = str(max(scaled, 1))


def _wants_json(request: httpx.Request) -> bool:
    """Decide like Laravel: `*/*` does not ask for JSON."""
    accepted = request.headers.get("accept", "").partition(",")[0]
    return "/json" in accepted or "+json" in accepted


def _target(matched: Match) -> dict[str, str | None]:
    """Describe the call to faults that affect some calls only."""
    endpoint = matched.endpoint.name if matched.endpoint else None
    return {"application": matched.uuid or None, "endpoint": endpoint}


def _unknown_call(request: httpx.Request, matched: Match) -> httpx.Response:
    if not matched.allowed_methods:
        return http.message(404, "Not found.", docs="https://coolify.io/docs")
    route, allowed = request.url.path.removeprefix("/"), ", ".join(matched.allowed_methods)
    text = f"The {request.method} method is not supported for route {route}."
    response = http.message(405, f"{text} Supported methods: {allowed}.")
    response.headers["Allow"] = allowed
    return response
