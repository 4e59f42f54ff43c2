"""Reads a form of type `multipart/form-data` with the parser of Python's `email` package.

A form with one picture and three words needs no library of its own.
"""

from collections.abc import Mapping
from email.parser import BytesParser
from email.policy import HTTP


class BrokenMultipart(ValueError):
    """The body is no form."""


def read_multipart(content_type: str, body: bytes) -> Mapping[str, bytes]:
    """Return the content of each field."""
    if not content_type.lower().startswith("multipart/form-data"):
        raise BrokenMultipart("Send the screenshot as multipart/form-data.")
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    form = BytesParser(policy=HTTP).parsebytes(head + body)
    if not form.is_multipart():
        raise BrokenMultipart("The form is broken, or its boundary is missing.")
    fields: dict[str, bytes] = {}
    for part in form.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            fields[name] = content
    return fields
