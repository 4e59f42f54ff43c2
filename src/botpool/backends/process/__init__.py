"""Containers as local processes: for trying Botpool out, for its demo, and for its tests.

It keeps every promise of the Protocol, a killed control plane included. `launcher.py` runs and
supervises one program, and `nursery.py` forks launchers; `directory.py` is one container on disk,
`root.py` all of them; `locks.py` says who runs; `ending.py` makes a run end; `watch.py` notices
ends; `logs.py` reads output.
"""

from botpool.backends.process.backend import ProcessBackend

__all__ = ["ProcessBackend"]
