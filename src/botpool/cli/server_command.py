"""Decorators for commands that call the server.

`with_client` adds the options that find the server and passes a client as the first argument.
`with_client_and_json` also adds `--json`, which prints the server's response as it came.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from botpool.cli import options, output
from botpool.cli.errors import CommandFailed, UsageError
from botpool.cli.target import Target, find_target
from botpool.domain.errors import BotpoolError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from botpool.client import Client, ClientError

P = ParamSpec("P")
_CONNECTION_OPTIONS = inspect.signature(find_target).parameters


def with_client(command: Callable[Concatenate["Client", P], None]) -> Callable[..., None]:
    """Give a command the connection options, and a client in place of its first parameter."""

    def run(**arguments: Any) -> None:
        from botpool.client import Client, ClientError

        target = find_target(**{name: arguments.pop(name) for name in _CONNECTION_OPTIONS})
        try:
            with Client(target.url, target.key, attempts=1) as client:
                command(client, **arguments)  # type: ignore[call-arg]
        except ClientError as error:
            raise explained(error, target) from error

    _, *parameters = inspect.signature(command).parameters.values()
    return _with_signature(run, command, [*parameters, *_CONNECTION_OPTIONS.values()])


def with_client_and_json(
    command: Callable[Concatenate["Client", P], "RenderableType"],
) -> Callable[..., None]:
    """Give a command the connection options and `--json`; without `--json`, print its result."""

    def run(client: "Client", *, as_json: bool, **arguments: Any) -> None:
        text = command(client, **arguments)  # type: ignore[call-arg]
        if as_json:
            output.write_json(client.response.content)
        else:
            output.show(text)

    as_json = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.JsonOption
    )
    parameters = [*inspect.signature(command).parameters.values(), as_json]
    return with_client(_with_signature(run, command, parameters))


def _with_signature(
    run: Callable[..., None], command: Callable[..., Any], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Give `run` the name and the help of the command, and the parameters that typer reads."""
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def explained(error: "ClientError", target: Target) -> BotpoolError:
    """The error with advice for a user of the command line."""
    from botpool.client import NotValid, ResponseLost, Unauthorized, Unavailable, Unreachable

    match error:
        case ResponseLost():
            return CommandFailed(
                f"{error}. Check whether the request took effect before you retry."
            )
        case Unreachable():
            return CommandFailed(
                f"{error}. Start it with 'botpool up', or give another address with --url or "
                "BOTPOOL_URL."
            )
        case Unauthorized():
            return CommandFailed(
                f"{target.url} does not accept the key from {target.key_from}. Give a valid key "
                "with --key or BOTPOOL_API_KEY; 'botpool key create' creates one."
            )
        case NotValid():
            return UsageError(str(error))
        case Unavailable(retry_after_s=wait_s) if f"{wait_s:g} s" not in error.detail:
            return CommandFailed(f"{error} Try again in {wait_s:g} s.")
    return error
