"""Botpool: the control plane for pools of slow-to-start bot containers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botpool.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "__version__"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """The clients, imported when they are first asked for: the command starts without them."""
    if name in ("AsyncClient", "Client"):
        from botpool import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
