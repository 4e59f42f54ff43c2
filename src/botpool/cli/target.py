"""Finds the server and the API key: from options, the environment, then the settings."""

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botpool.cli.errors import UsageError
from botpool.cli.options import ConfigOption, DataDirOption, KeyOption, UrlOption

if TYPE_CHECKING:
    from botpool.settings import Settings

_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server and the API key for it; `key_from` says where the key was found."""

    url: str
    key: str = field(repr=False)
    key_from: str


def find_target(
    url: UrlOption = None,
    key: KeyOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> Target:
    """Find the server and the key. Settings are read only if one of the two is not given.

    The parameters are the options of every command that calls the server.
    """
    if url is not None:
        url = _checked_url(url)
    if key is not None:
        key_from = "--key or BOTPOOL_API_KEY"
        if url is not None:
            return Target(url=url, key=_checked_key(key, key_from), key_from=key_from)
    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})
    if key is None:
        key, key_from = _stored_key(settings, url)
    url = url or _url_of(settings)
    return Target(url=url, key=_checked_key(key, key_from), key_from=key_from)


def local_url(host: str, port: int) -> str:
    """Return the address of a server on this machine."""
    if host in _ANY_ADDRESS:
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _url_of(settings: "Settings") -> str:
    """The address of the running server of embedded mode, else the address of the settings."""
    if settings.database.embedded:
        with contextlib.suppress(OSError, ValueError):
            return (settings.data_dir / "address").read_text().strip()
    return local_url(settings.server.host, settings.server.port)


def _stored_key(settings: "Settings", url: str | None) -> tuple[str, str]:
    """The key of embedded mode. It has scope `admin`, so it is sent to this machine only."""
    from botpool.client.connection import is_local

    if url is not None and not is_local(url):
        raise _no_key(f"none is stored for {url}")
    file = settings.data_dir / "key"
    try:
        return file.read_text().strip(), str(file)
    except FileNotFoundError:
        raise _no_key(f"'botpool up' has stored none in {file}") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "the file is not text"
        raise _no_key(f"{file} cannot be read: {problem}") from None


def _no_key(detail: str) -> UsageError:
    return UsageError(
        f"No API key: {detail}. Give one with --key or BOTPOOL_API_KEY, or name the "
        "--data-dir of 'botpool up'; 'botpool key create' creates one."
    )


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or any(each.isspace() for each in url):
        raise UsageError(f"--url: {url!r} is not an address such as http://127.0.0.1:8700")
    return url.rstrip("/")


def _checked_key(key: str, key_from: str) -> str:
    if not key or not all("!" <= each <= "~" for each in key):
        raise UsageError(f"{key_from}: must be visible ASCII characters")
    return key
