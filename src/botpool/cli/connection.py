"""Where the server is and as whom we call: options, environment, then the settings.

`connected` gives a command the options for that, and a client in place of its first parameter, so
that each command states only what is its own.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec
from urllib.parse import urlsplit

import typer

from botpool.cli.errors import NoKey, UsedWrongly

if TYPE_CHECKING:
    from botpool.cli.client import Client
    from botpool.settings import Settings

P = ParamSpec("P")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar="BOTPOOL_CONFIG", metavar="FILE", help="The settings' file."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where embedded mode keeps its data and its key. Default: .botpool/"
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(envvar="BOTPOOL_URL", metavar="URL", help="The server. Default: of the settings"),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        envvar="BOTPOOL_API_KEY",
        metavar="KEY",
        help="The API key. Default: the one that 'botpool up' keeps",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the API's own JSON, and nothing else.")
]

_OPTIONS = {"url": UrlOption, "key": KeyOption, "config": ConfigOption, "data_dir": DataDirOption}
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server, and the key to it with the place it came from."""

    url: str
    key: str = field(repr=False)
    key_from: str

    @property
    def local(self) -> bool:
        return is_local(self.url)


def connected(command: Callable[Concatenate["Client", P], None]) -> Callable[..., None]:
    """The command with options for a connection, which it gets as a client."""

    def run(
        *,
        url: str | None,
        key: str | None,
        config: Path | None,
        data_dir: Path | None,
        **own: Any,
    ) -> None:
        from botpool.cli.client import Client

        with Client(find_target(url, key, config, data_dir)) as client:
            command(client, **own)  # type: ignore[call-arg]

    _, *parameters = inspect.signature(command).parameters.values()
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    for name, option in _OPTIONS.items():
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        )
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def find_target(
    url: str | None, key: str | None, config: Path | None, data_dir: Path | None
) -> Target:
    """Settings are read only for what was not given: a client needs none of the server's."""
    if url is not None:
        url = _checked_url(url)
    if key is not None:
        key_from = "--key or BOTPOOL_API_KEY"
        if url is not None:
            return Target(url=url, key=_checked_key(key, key_from), key_from=key_from)
    from botpool.settings import load_settings

    settings = load_settings(config, {"data_dir": data_dir})
    if key is None:
        key, key_from = _kept_key(settings, url)
    return Target(url=url or _own_url(settings), key=_checked_key(key, key_from), key_from=key_from)


def is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _own_url(settings: "Settings") -> str:
    host = settings.server.host
    if host in _EVERYWHERE:
        host = "127.0.0.1"
    return (
        f"http://[{host}]:{settings.server.port}"
        if ":" in host
        else (f"http://{host}:{settings.server.port}")
    )


def _kept_key(settings: "Settings", url: str | None) -> tuple[str, str]:
    """The key of embedded mode. It opens everything here, so it is sent nowhere else."""
    if url is not None and not is_local(url):
        raise NoKey(f"none is kept for {url}")
    kept = settings.data_dir / "key"
    try:
        return kept.read_text().strip(), str(kept)
    except FileNotFoundError:
        raise NoKey(f"'botpool up' has left none in {kept}") from None
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NoKey(f"{kept} cannot be read: {problem}") from None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or any(each.isspace() for each in url):
        raise UsedWrongly("--url", f"{url!r} is no address such as http://127.0.0.1:8700")
    return url.rstrip("/")


def _checked_key(key: str, key_from: str) -> str:
    if not key or not all("!" <= each <= "~" for each in key):
        raise UsedWrongly(key_from, "is empty, or has characters that no key has")
    return key
