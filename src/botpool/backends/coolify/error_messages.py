"""Converts Coolify's error responses to BackendRefused, which names the setting to change."""

from typing import Any

from botpool.backends.coolify.responses import errors_of, message_of
from botpool.domain.errors import BackendRefused

MINIMUM_VERSION = "4.3.7"
"""Before, a cancel does not advance the queue, and a stop does not update the status."""
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


def not_authorized(status: int, message: str) -> BackendRefused | None:
    """Convert 401, 403 and Coolify's 400 for a token without a team."""
    if status == 401 or (status == 400 and "invalid token" in message.lower()):
        remedy = "The token is wrong or has expired. Create one under Keys & Tokens, API Tokens."
        return BackendRefused(f"{_SECTION}.token", f"Coolify says “{message}” {remedy}")
    if status != 403:
        return None
    if "permission" in message.lower():
        return BackendRefused(f"{_SECTION}.token", f"Coolify says “{message}”. {_ABILITIES}.")
    if "disabled" in message.lower():
        remedy = "Enable the API in Coolify under Settings, Advanced."
        return BackendRefused(f"{_SECTION}.url", f"Coolify says “{message}” {remedy}")
    if "unauthorized" in message.lower():
        remedy = "The user of the token is not an admin of the team. Create the token as an admin."
        return BackendRefused(f"{_SECTION}.token", f"Coolify says “{message}” {remedy}")
    remedy = "Allow this machine's address in Coolify under Settings, Advanced."
    return BackendRefused(f"{_SECTION}.url", f"Coolify says “{message}” {remedy}")


def hidden_values() -> BackendRefused:
    """A token without `read:sensitive` cannot read the fence, which variables hold."""
    return BackendRefused(
        f"{_SECTION}.token",
        f"Coolify hides the values of environment variables from this token. {_ABILITIES}.",
    )


def redirected() -> BackendRefused:
    return BackendRefused(
        f"{_SECTION}.url", "Coolify redirects to another address. Set that address."
    )


def wrong_address() -> BackendRefused:
    """The server answers, but has no Coolify at this address."""
    return BackendRefused(
        f"{_SECTION}.url",
        "the server answers 404. Set the address of your Coolify, with or without /api/v1.",
    )


def too_old(version: str) -> BackendRefused:
    return BackendRefused(
        f"{_SECTION}.url",
        f"Coolify {version} is too old. Update it to {MINIMUM_VERSION} or later.",
    )


def no_tag_filter() -> BackendRefused:
    return BackendRefused(
        f"{_SECTION}.url",
        "this Coolify cannot filter applications by tag, so Botpool cannot recognize its own. "
        f"Update Coolify to {MINIMUM_VERSION} or later.",
    )


def setting_not_found(message: str) -> BackendRefused | None:
    """Convert `Project not found.` and similar messages; None for other messages."""
    word = message.split(" ", 1)[0].lower()
    if "not found" not in message.lower() or word not in _NOT_FOUND:
        return None
    setting = f"{_SECTION}.{_NOT_FOUND[word]}"
    return BackendRefused(
        setting, f"Coolify says “{message}” Copy the uuid from the {word}'s address."
    )


def write_rejected(status: int, content: Any, *, pool: str) -> BackendRefused | None:
    """Convert a rejected create or update; None if no setting causes the rejection."""
    message = message_of(content) or ""
    if status == 404:
        return setting_not_found(message)
    if status == 400 and "destination" in message.lower():
        remedy = "Set it to the uuid of one of the server's destinations."
        return BackendRefused(f"{_SECTION}.destination_uuid", f"Coolify says “{message}” {remedy}")
    if status != 422:
        return None
    errors = errors_of(content)
    for name, error in errors.items():
        if name in _FIELDS:
            return BackendRefused(f"{_SECTION}.{_FIELDS[name]}", f"Coolify says “{error}”")
        if name in _IMAGE_FIELDS:
            return BackendRefused(f"pools.{pool}.image", f"Coolify says “{error}”")
    details = "; ".join(f"{name}: {error}" for name, error in errors.items()) or message
    return BackendRefused(
        f"{_SECTION}.url",
        f"Coolify rejects Botpool's request ({details}). Check that its version is supported.",
    )
