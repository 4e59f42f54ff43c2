"""Chaos is made around real servers: those of `tests/acceptance`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "acceptance"))
