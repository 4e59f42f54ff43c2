"""Where containers run. One Protocol (`protocol.py`), one conformance suite (`tests/backends`)."""
