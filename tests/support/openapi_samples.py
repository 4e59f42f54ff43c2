"""Minimal valid values for the schemas of an OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_SAMPLES = {"image/png": b"\x89PNG\r\n\x1a\n"}


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All operations: method, path and description."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def body_of(
    operation: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[bytes, dict[str, str]]:
    """A minimal valid body and its headers; both empty if the operation takes none."""
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return b"", {}
    kind = "application/json" if "application/json" in content else next(iter(content))
    if kind == "application/json":
        text = json.dumps(sample(content[kind]["schema"], document)).encode()
    else:
        text = _SAMPLES.get(kind, b"x")
    return text, {"Content-Type": kind}


def response_of(operation: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """A response of JSON with an item in each list; None if the response is none of JSON."""
    for status, response in operation["responses"].items():
        content = response.get("content", {})
        if status.startswith("2") and "application/json" in content:
            return sample(content["application/json"]["schema"], document, min_items=1)
    return None


def sample(schema: Mapping[str, Any], document: Mapping[str, Any], *, min_items: int = 0) -> Any:
    """A valid value. A text with a pattern needs an example in the document."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return sample(document["components"]["schemas"][name], document, min_items=min_items)
    for key in ("example", "const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if key in schema:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return sample(schema[key][0], document, min_items=min_items)
    return _sample_of_type(schema, document, min_items)


def _sample_of_type(schema: Mapping[str, Any], document: Mapping[str, Any], min_items: int) -> Any:
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {
                name: sample(properties[name], document, min_items=min_items)
                for name in schema.get("required", ())
            }
        case "array":
            count = max(min_items, schema.get("minItems", 0))
            return [sample(schema["items"], document, min_items=min_items)] * count
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "null":
            return None
        case "string" if schema.get("format") == "date-time":
            return "2026-03-01T10:00:00Z"
        case _:
            return "x" * max(1, schema.get("minLength", 1))
