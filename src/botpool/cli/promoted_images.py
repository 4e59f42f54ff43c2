"""The images that rollouts promoted over those of the settings, for `botpool settings`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from botpool.domain.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from botpool.settings import EffectiveSetting, Settings
    from botpool.store.doctor import PromotedImage

_TIMEOUT_S = 3.0
"""`botpool settings` works without a database, so it waits only shortly for one."""


def read_promoted_images(settings: "Settings") -> "list[PromotedImage] | None":
    """Read the promoted images from the database; None if it does not answer."""
    from botpool.store.data_dir import DataDir
    from botpool.store.embedded import EmbeddedPostgres

    if settings.database.embedded:
        url = EmbeddedPostgres(DataDir(settings.data_dir)).attach()
        if url is None:
            return None
    else:
        url = settings.database.url.get_secret_value()
    try:
        return asyncio.run(_read(url))
    except (DatabaseUnavailable, TimeoutError):
        return None


async def _read(url: str) -> "list[PromotedImage]":
    from botpool.store.doctor import list_promoted_images
    from botpool.store.readonly_connection import ReadonlyConnection

    async with asyncio.timeout(_TIMEOUT_S), ReadonlyConnection.connected(url) as connection:
        return await connection.query(list_promoted_images.statement())


def with_promoted_images(
    found: "Sequence[EffectiveSetting]", promoted: "Sequence[PromotedImage]"
) -> "list[EffectiveSetting]":
    """Replace the images that a rollout overrides; their origin names the rollout."""
    by_path: dict[tuple[str, ...], PromotedImage] = {
        ("pools", str(each.pool_name), "image"): each for each in promoted
    }
    shown = []
    for each in found:
        image = by_path.get(tuple(each.setting.path))
        # A file that changed since the last start of `serve` applies at the next one.
        if image is not None and image.configured_image == each.value:
            rollout = "a rollout" if image.rollout_id is None else f"rollout {image.rollout_id}"
            origin = f"{rollout}; {each.origin} has {image.configured_image}"
            shown.append(replace(each, value=image.image, origin=origin))
        else:
            shown.append(each)
    return shown
