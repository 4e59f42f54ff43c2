"""The generated reference of the schema matches the migrations."""

import runpy
from pathlib import Path

from botpool.store.migrator import migrate
from tests.support.postgres import TestPostgres

SCRIPT = Path(__file__).parents[2] / "scripts" / "schema-reference"


def test_schema_reference_is_up_to_date(postgres: TestPostgres) -> None:
    script = runpy.run_path(str(SCRIPT))
    url = postgres.create_database()
    try:
        migrate(url)
        tables = script["read_tables"](url)
    finally:
        postgres.drop_database(url)
    assert script["PAGE"].read_text() == script["page"](tables), "run scripts/schema-reference"
    assert script["PICTURE"].read_text() == script["picture"](tables), (
        "run scripts/schema-reference"
    )


def test_every_table_has_a_comment(database_url: str) -> None:
    script = runpy.run_path(str(SCRIPT))
    tables = [table for table in script["read_tables"](database_url) if table.name != "test_clock"]
    assert [table.name for table in tables if not table.comment] == []
