"""Random requests of users and agents, mostly invalid, and a client that sends any bytes."""

import base64
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

TIMEOUT_S = 120.0
_READ = 4 * 1024 * 1024
_IDS = ("0", "1", "2", "3", "-1", "1.0", "9223372036854775807", "9223372036854775808", "x")
_POOLS = ("google-meet", "teams", "zoom", "nowhere", "UPPER", "a" * 41)
_TIMES = ("2026-01-05T10:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", "yesterday")
_NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**31, -(2**31), 2**63, -(2**63), 10**400]),
    st.integers(),
    st.floats(),
)
_TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from([*_POOLS, *_TIMES, "https://meet.google.com/a", "\0", "\ud800", "x" * 3000]),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


_REQUIRED: tuple[dict[str, Any], ...] = (
    {"meetingUrl": "https://meet.google.com/abc-defg-hij"},
    {"events": [{"kind": "chat", "data": {"a": 1}}]},
    {"status": "IN_CALL"},
    {"name": "fuzz"},
    {"kind": "mute"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileRequest:
    method: str
    target: str
    headers: Mapping[str, bytes]
    body: bytes


@dataclass(slots=True)
class Credentials:
    """Valid ones, of which the tests may use up those of the agents."""

    keys: list[str]
    tokens: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)


def requests(
    document: Mapping[str, Any], credentials: Credentials
) -> st.SearchStrategy[HostileRequest]:
    """Requests for the operations of an OpenAPI document."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return st.sampled_from(operations).flatmap(
        lambda chosen: _request_of(document, credentials, *chosen)
    )


@st.composite
def _request_of(
    draw: st.DrawFn,
    document: Mapping[str, Any],
    credentials: Credentials,
    method: str,
    path: str,
    operation: Mapping[str, Any],
) -> HostileRequest:
    declared = operation.get("parameters", [])
    for parameter in declared:
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", draw(_path_values(path)))
    names = [parameter["name"] for parameter in declared if parameter["in"] == "query"]
    query = draw(st.lists(st.tuples(_query_names(names), _query_values(credentials)), max_size=4))
    headers = draw(_headers(credentials, agent=path.startswith("/v1/agent")))
    body = b""
    if "requestBody" in operation or draw(st.integers(0, 9)) == 0:
        body = draw(_bodies(_properties(document, operation)))
        headers["Content-Type"] = draw(
            st.sampled_from([*[b"application/json"] * 8, b"text/plain", b"application/x+json", b""])
        )
    text = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in query)
    return HostileRequest(
        method=draw(st.sampled_from([*[method] * 19, "PUT"])),
        target=f"{path}?{text}" if text else path,
        headers=headers,
        body=body,
    )


def _path_values(path: str) -> st.SearchStrategy[str]:
    """Values of a parameter. The requests must not revoke the keys that they use."""
    if path.startswith("/v1/keys/"):
        return st.integers(10_000, 10_010).map(str)
    known = st.sampled_from([*_IDS, *_POOLS, "default"])
    anything = st.text(min_size=1, max_size=12).map(lambda text: quote(_encodable(text), safe=""))
    return st.one_of(known, known, anything)


def _query_names(names: list[str]) -> st.SearchStrategy[str]:
    known = st.sampled_from([*names, "cursor", "limit"])
    return st.one_of(known, known, st.text(max_size=5).map(_encodable))


def _query_values(credentials: Credentials) -> st.SearchStrategy[str]:
    statuses = ("DONE", "QUEUED", "idle", "busy", "true", "false", "newest", "")
    positions = st.lists(_VALUES, max_size=4).map(_as_cursor)
    return st.one_of(
        st.sampled_from([*_IDS, *_POOLS, *statuses]),
        st.deferred(lambda: st.sampled_from(credentials.cursors or [""])),
        positions,
        _TEXTS.map(_encodable),
    )


def _as_cursor(position: list[Any]) -> str:
    names = ["BotPosition", "QueuePosition", "SlotPosition", "EventPosition", "SlotEventPosition"]
    text = json.dumps([names[len(position)], *position])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@st.composite
def _headers(draw: st.DrawFn, credentials: Credentials, *, agent: bool) -> dict[str, bytes]:
    valid = credentials.tokens if agent else credentials.keys
    others = credentials.keys if agent else credentials.tokens
    sent = draw(st.sampled_from([*valid * 5, *others] or [""]))
    wrong = draw(st.integers(0, 19))
    headers: dict[str, bytes] = {}
    if wrong == 0:
        headers["Authorization"] = draw(_header_bytes())
    elif wrong == 1:
        place = draw(st.integers(0, len(sent)))
        headers["Authorization"] = f"Bearer {sent[:place]}~{sent[place + 1 :]}".encode()
    elif wrong == 2:
        headers["X-API-Key"] = draw(st.one_of(st.just(sent.encode()), _header_bytes()))
    elif wrong > 3:
        headers["Authorization"] = f"Bearer {sent}".encode()
    names = ("Idempotency-Key", "X-Correlation-ID", "Last-Event-ID", "Cookie", "Sec-Fetch-Site")
    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        headers[name] = draw(_header_bytes())
    return headers


def _header_bytes() -> st.SearchStrategy[bytes]:
    """Any bytes that do not end the header."""
    anything = st.binary(max_size=40)
    visible = st.text("abcXYZ019.=-_ ;,", max_size=40).map(str.encode)
    return st.one_of(anything, visible).map(
        lambda value: value.translate(None, delete=b"\r\n\0").strip()
    )


def _properties(document: Mapping[str, Any], operation: Mapping[str, Any]) -> list[str]:
    """The names of all fields in the models of the request's body."""
    text = json.dumps(operation.get("requestBody", {}))
    schemas = document["components"]["schemas"]
    names: list[str] = []
    for name, schema in schemas.items():
        if f'schemas/{name}"' in text:
            names += schema.get("properties", {})
            text += json.dumps(schema)
    return names


@st.composite
def _bodies(draw: st.DrawFn, names: list[str]) -> bytes:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=60))
    value = draw(_VALUES if kind == 1 or not names else _objects(names))
    if isinstance(value, dict) and kind > 4:
        value = _valid_fields(names) | (value if kind > 7 else {})
    text = json.dumps(value).encode()
    if kind == 2:
        place = draw(st.integers(0, len(text)))
        return text[:place] + draw(st.binary(max_size=3)) + text[place:]
    return text


def _valid_fields(names: list[str]) -> dict[str, Any]:
    """The required fields of the request with these fields."""
    return next((dict(fields) for fields in _REQUIRED if set(fields) <= set(names)), {})


def _objects(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    statuses = ("JOINING_CALL", "IN_CALL", "CALL_ENDED", "FAILED", "finishing", "user", "chat")
    values = st.one_of(_VALUES, st.sampled_from(statuses))
    nested = st.dictionaries(st.sampled_from(names), values, max_size=4)
    return st.dictionaries(
        st.sampled_from(names), st.one_of(values, nested, st.lists(nested, max_size=3)), max_size=5
    )


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def send(port: int, request: HostileRequest) -> tuple[HTTPResponse, bytes]:
    """Send a request as it is, and return the response and its body, unless that is a stream."""
    lines = [f"{request.method} {request.target} HTTP/1.1".encode(), b"Host: botpool.test"]
    lines += [name.encode() + b": " + value for name, value in request.headers.items()]
    lines += [b"Connection: close", b"Content-Length: %d" % len(request.body), b"", b""]
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(b"\r\n".join(lines) + request.body)
        response = HTTPResponse(connection, method=request.method)
        response.begin()
        is_stream = response.headers.get_content_type() in ("text/event-stream", "text/plain")
        return response, b"" if is_stream else response.read(_READ)
