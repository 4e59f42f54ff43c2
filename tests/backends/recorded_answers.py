"""Answers of a real Kubernetes 1.34, recorded once and kept in `kubernetes_answers/`."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "kubernetes_answers"


def answer(name: str) -> dict[str, Any]:
    """Return a recorded answer: a Pod, a Node, a review or a Status."""
    recorded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return recorded


def all_answers() -> list[str]:
    return sorted(path.name.removesuffix(".json") for path in FOLDER.glob("*.json"))
