"""How a setting is declared: its section, default, example and unit.

The docstring below a setting is its description.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class Section(BaseModel):
    """Base of every section: immutable, and closed to unknown names.

    Validation errors leave the input out, because the input may be a secret.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _reject_booleans(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject true and false where a number is expected: pydantic reads `true` as 1."""
        is_boolean = cls.model_fields[info.field_name or ""].annotation is bool
        if isinstance(value, bool) and not is_boolean:
            raise ValueError("should not be true or false")
        return value


def setting(default: object, *, example: object, unit: str | None = None) -> Any:
    """Declare a field that the settings reference and `botpool settings` can describe.

    `unit` is for a number whose name does not end with its unit, as `timeout_s` does.
    """
    return Field(default, examples=[example], json_schema_extra={"unit": unit})
