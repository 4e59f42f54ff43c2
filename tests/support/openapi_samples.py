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


def sample(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    """A valid value. A text with a pattern needs an example in the document."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return sample(document["components"]["schemas"][name], document)
    for key in ("example", "const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if key in schema:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return sample(schema[key][0], document)
    return _sample_of_type(schema, document)


def _sample_of_type(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: sample(properties[name], document) for name in schema.get("required", ())}
        case "array":
            return [sample(schema["items"], document)] * schema.get("minItems", 0)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "x" * max(1, schema.get("minLength", 1))
