"""Backends run containers. All implement `protocol.py` and pass the suite in `tests/backends`."""
