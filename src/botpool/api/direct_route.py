"""A route whose plain requests go straight to its endpoint, for the one that is asked most.

The framework solves dependencies and looks at what is answered for every request: a fifth of the
time of a post, and nothing of it is used there. Here a request with a JSON body that is valid is
let in and handed to the endpoint. Any other goes the framework's way: whatever is refused is
refused as everywhere else, in the same order and in the same words.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from botpool.domain.records import ApiKey

_JSON = "application/json"


def direct_route(
    *, key_of: Callable[[Request], Awaitable[ApiKey]], model: type[BaseModel]
) -> type[APIRoute]:
    """For an endpoint that takes the request, the caller's key and the body, and answers itself.

    `key_of` lets the caller in, or raises, as the dependency of the endpoint does; `model` is the
    shape of the body.
    """

    class DirectRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            framework, endpoint = super().get_route_handler(), self.endpoint

            async def handle(request: Request) -> Response:
                if request.headers.get("content-type") != _JSON:
                    return await framework(request)
                try:
                    # Kept by the request: the framework would not read it twice.
                    sent = await request.json()
                except (ValueError, RecursionError, ClientDisconnect):
                    return await framework(request)
                key = await key_of(request)
                try:
                    body = model.model_validate(sent)
                except ValidationError:
                    return await framework(request)
                answer: Response = await endpoint(request, key, body)
                return answer

            return handle

    return DirectRoute
