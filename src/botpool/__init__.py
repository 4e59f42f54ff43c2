"""Botpool: the control plane for pools of slow-to-start bot containers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botpool.client import Client

__all__ = ["Client", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The client, imported when it is first asked for: the command starts without it."""
    if name == "Client":
        from botpool.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
