"""Masking of passwords in URLs."""

import re
from urllib.parse import parse_qsl

MASK = "********"

_URL = re.compile(
    r"(?P<scheme>[a-z]+://)"
    r"(?:(?P<user>[^:@/?#]*)(?P<password>:[^@/?#]*)?@)?"
    r"(?P<server>[^@/?#]*(?:/[^@?#]*)?)"
    r"(?:\?(?P<query>[^@#]*))?"
)


def mask_url(url: str) -> str:
    """Mask the passwords in a URL.

    A URL with a reserved character in the wrong part is masked as a whole: the character may
    belong to a password that was not percent-encoded.
    """
    parts = _URL.fullmatch(url)
    if parts is None:
        return MASK
    shown = parts["scheme"]
    if parts["user"] is not None:
        shown += parts["user"] + (f":{MASK}@" if parts["password"] else "@")
    shown += parts["server"]
    if parts["query"]:
        shown += "?" + "&".join(_masked_parameters(parts["query"]))
    return shown


def _masked_parameters(query: str) -> list[str]:
    from psycopg.pq import Conninfo

    secrets = {each.keyword.decode() for each in Conninfo.get_defaults() if each.dispchar == b"*"}
    return [
        f"{name}={MASK if name in secrets else value}"
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
