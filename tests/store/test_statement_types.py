"""PostgreSQL reads each parameter as the type that its name promises.

Parameters are sent without a type, so the SQL decides. A number of seconds that PostgreSQL read as
an integer would be refused when it has a fraction.
"""

from importlib.resources import files

import psycopg
from psycopg.pq import ExecStatus

from botpool.store.statements import positional, sent_text

_NAMES = sorted(
    file.name.removesuffix(".sql")
    for file in (files("botpool.store") / "sql" / "queries").iterdir()
)
_TYPES_BY_SUFFIX = {
    "_s": "float8",
    "_ids": "_int8|_text",
    "_id": "int8|text",
    "days": "int4",
    "limit": "int4|int8",
    "pool_name": "text",
    "reason": "text",
    "reasons": "_text",
}


def test_parameters_have_the_type_of_their_suffix(database_url: str) -> None:
    wrong = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        kinds = dict(connection.execute("SELECT oid, typname FROM pg_type").fetchall())
        for name in _NAMES:
            text, parameters = positional(sent_text(name))
            prepared = connection.pgconn.prepare(name.encode(), text)
            assert prepared.status == ExecStatus.COMMAND_OK, prepared.error_message
            described = connection.pgconn.describe_prepared(name.encode())
            for number, parameter in enumerate(parameters):
                kind = kinds[described.param_type(number)]
                for suffix, expected in _TYPES_BY_SUFFIX.items():
                    if parameter.endswith(suffix) and kind not in expected.split("|"):
                        wrong.append(f"{name}: {parameter} is read as {kind}")
    assert wrong == []
