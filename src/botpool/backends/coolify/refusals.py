"""Refusals of Coolify that name a setting: trying again cannot help before it is changed."""

from typing import Any

from botpool.backends.coolify.answers import errors_of, message_of
from botpool.domain.errors import BackendRefused

_SECTION = "backends.coolify"
_ABILITIES = (
    "Give it the abilities read, read:sensitive, write and deploy in Coolify under "
    "Keys & Tokens, API Tokens"
)
_NOT_FOUND = {
    "project": "project_uuid",
    "server": "server_uuid",
    "environment": "environment_name",
    "destination": "destination_uuid",
}
_FIELDS = {"environment_uuid": "environment_name"} | {name: name for name in _NOT_FOUND.values()}
_IMAGE_FIELDS = frozenset({"docker_registry_image_name", "docker_registry_image_tag"})


def not_allowed(status: int, said: str) -> BackendRefused | None:
    """Who we are is refused: 401, 403, or Coolify's 400 for a token without a team."""
    if status == 401 or (status == 400 and "invalid token" in said.lower()):
        help_text = "It is wrong or has expired. Make a new one under Keys & Tokens, API Tokens."
        return BackendRefused(f"{_SECTION}.token", f"Coolify says “{said}” {help_text}")
    if status != 403:
        return None
    if "permission" in said.lower():
        return BackendRefused(f"{_SECTION}.token", f"Coolify says “{said}”. {_ABILITIES}.")
    if "disabled" in said.lower():
        help_text = "Switch the API on in Coolify under Settings, Advanced."
        return BackendRefused(f"{_SECTION}.url", f"Coolify says “{said}” {help_text}")
    help_text = "Allow this machine's address in Coolify under Settings, Advanced."
    return BackendRefused(f"{_SECTION}.url", f"Coolify says “{said}” {help_text}")


def hidden_values() -> BackendRefused:
    """Without `read:sensitive`, variables are shown without their values, and so no fence."""
    return BackendRefused(
        f"{_SECTION}.token",
        f"Coolify hides the values of environment variables from this token. {_ABILITIES}.",
    )


def moved(location: str) -> BackendRefused:
    return BackendRefused(f"{_SECTION}.url", f"redirects to {location}; give that address")


def no_tags() -> BackendRefused:
    return BackendRefused(
        f"{_SECTION}.url",
        "this Coolify does not filter applications by tag, so that ours cannot be told from "
        "others'. Update Coolify to 4.3 or later.",
    )


def place_not_found(said: str) -> BackendRefused | None:
    """`Project not found.` and its like; None for other words."""
    word = said.split(" ", 1)[0].lower()
    if "not found" not in said.lower() or word not in _NOT_FOUND:
        return None
    setting = f"{_SECTION}.{_NOT_FOUND[word]}"
    return BackendRefused(setting, f"Coolify says “{said}” Take it from the {word}'s address.")


def not_made(status: int, content: Any, *, pool: str) -> BackendRefused | None:
    """Why an application of that pool was not made or changed; None if it is nobody's setting."""
    said = message_of(content) or ""
    if status == 404:
        return place_not_found(said)
    if status == 400 and "destination" in said.lower():
        help_text = "Set it to the uuid of one of the server's destinations."
        return BackendRefused(f"{_SECTION}.destination_uuid", f"Coolify says “{said}” {help_text}")
    if status != 422:
        return None
    errors = errors_of(content)
    for name, complaint in errors.items():
        if name in _FIELDS:
            return BackendRefused(f"{_SECTION}.{_FIELDS[name]}", f"Coolify says “{complaint}”")
        if name in _IMAGE_FIELDS:
            return BackendRefused(f"pools.{pool}.image", f"Coolify says “{complaint}”")
    complaints = "; ".join(f"{name}: {complaint}" for name, complaint in errors.items()) or said
    return BackendRefused(
        f"{_SECTION}.url",
        f"this Coolify refuses what Botpool sends ({complaints}). Is its version supported?",
    )
