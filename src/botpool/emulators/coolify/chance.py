"""The one source of chance: the same seed and the same calls give the same world."""

import random
import string

_LETTERS = string.ascii_lowercase
_ALPHABET = string.ascii_lowercase + string.digits
_UUID_LENGTH = 24


class Chance:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def uuid(self) -> str:
        """In the form of Coolify's ids (cuid2)."""
        first = self._random.choice(_LETTERS)
        return first + "".join(self._random.choices(_ALPHABET, k=_UUID_LENGTH - 1))

    def between(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds)

    def happens(self, probability: float) -> bool:
        return probability >= 1 or self._random.random() < probability
