"""Headers that a request may bring, for the route that is asked most when a meeting begins.

The framework takes some 15 µs for each that is absent. Here such a one costs a look; one that is
there is validated and documented all the same.
"""

from typing import Annotated, Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import StringConstraints, TypeAdapter, ValidationError

from botpool.api.patterns import VISIBLE


class OptionalHeader:
    """Visible ASCII text of at most so many characters."""

    def __init__(self, name: str, *, max_length: int) -> None:
        self._name = name
        self._text: TypeAdapter[str] = TypeAdapter(
            Annotated[str, StringConstraints(min_length=1, max_length=max_length, pattern=VISIBLE)]
        )

    def of(self, request: Request) -> str | None:
        sent = request.headers.get(self._name)
        if sent is None:
            return None
        try:
            return self._text.validate_python(sent)
        except ValidationError as error:
            where = ("header", self._name)
            found = [{**item, "loc": where} for item in error.errors()]
            raise RequestValidationError(found) from None

    def described(self) -> dict[str, Any]:
        """The parameter, for the document."""
        schema = {"anyOf": [self._text.json_schema(), {"type": "null"}], "title": self._name}
        return {"name": self._name, "in": "header", "required": False, "schema": schema}
