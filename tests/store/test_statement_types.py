"""What a statement is given is read as what its name says, for the server decides that alone.

A number of seconds has a fraction. Read as an integer, it would be refused when it has one.
"""

from importlib.resources import files

import psycopg
from psycopg.pq import ExecStatus

from botpool.store.statements import positional, sent_text

_NAMES = sorted(
    file.name.removesuffix(".sql")
    for file in (files("botpool.store") / "sql" / "queries").iterdir()
)
_BY_ENDING = {
    "_s": "float8",
    "_ids": "_int8|_text",
    "_id": "int8|text",
    "days": "int4",
    "limit": "int4|int8",
    "pool_name": "text",
    "reason": "text",
    "reasons": "_text",
}


def test_a_parameter_is_of_the_kind_that_it_is_called(database_url: str) -> None:
    others = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        kinds = dict(connection.execute("SELECT oid, typname FROM pg_type").fetchall())
        for name in _NAMES:
            text, parameters = positional(sent_text(name))
            made = connection.pgconn.prepare(name.encode(), text)
            assert made.status == ExecStatus.COMMAND_OK, made.error_message
            described = connection.pgconn.describe_prepared(name.encode())
            for number, parameter in enumerate(parameters):
                kind = kinds[described.param_type(number)]
                for ending, expected in _BY_ENDING.items():
                    if parameter.endswith(ending) and kind not in expected.split("|"):
                        others.append(f"{name}: {parameter} is read as {kind}")
    assert others == []
