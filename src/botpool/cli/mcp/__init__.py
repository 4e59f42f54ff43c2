"""`botpool mcp`: tools for operators in assistants that speak the Model Context Protocol."""

from importlib.util import find_spec
from typing import Annotated

import typer

from botpool.cli.errors import CommandFailed
from botpool.cli.options import ConfigOption, DataDirOption, KeyOption, UrlOption
from botpool.cli.target import find_target


def mcp(
    http: Annotated[
        bool,
        typer.Option("--http", help="Serve HTTP instead of standard input and output."),
    ] = False,
    host: Annotated[str, typer.Option(help="The address for --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port for --http.")] = 8750,
    url: UrlOption = None,
    key: KeyOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Serve tools for assistants (MCP): explain, plan, stop, drain.

    Without --http, an assistant starts this command, and the tools use the key of --key or
    BOTPOOL_API_KEY. With --http, each request carries its own key as 'Authorization: Bearer KEY',
    and the tools use that key alone.

    \b
    botpool mcp
    botpool mcp --http --port 8750
    """
    if find_spec("mcp") is None:
        raise CommandFailed("'botpool mcp' needs another package: pip install 'botpool[mcp]'")
    from botpool.cli.mcp.server import create_server

    if http:
        # The key of a request is its caller's: none is read from the settings of this machine.
        target = find_target(url, key or "unused", config, data_dir)
        create_server(target.url, None).run("streamable-http", host=host, port=port)
    else:
        target = find_target(url, key, config, data_dir)
        create_server(target.url, target.key).run("stdio")
