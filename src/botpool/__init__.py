"""Botpool: the control plane for pools of slow-to-start bot containers."""

__version__ = "0.1.0"
