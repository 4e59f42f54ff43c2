"""pgbench with only the two statements of a claim and a release, on the table of the first seed."""

import re
import subprocess
import tempfile
from pathlib import Path

import psycopg

from botpool.store.embedded import find_programs

_SLOTS = 100
_TABLE = f"""
    CREATE TABLE bare_bots (id serial PRIMARY KEY);
    INSERT INTO bare_bots SELECT FROM generate_series(1, {_SLOTS});
    CREATE TABLE bare_slots (
        id serial PRIMARY KEY, coolify_service_uuid varchar(255) NOT NULL UNIQUE,
        slot_name varchar(255) NOT NULL, status varchar(50) NOT NULL DEFAULT 'idle',
        assigned_bot_id integer REFERENCES bare_bots (id), last_used_at timestamp,
        error_message text, created_at timestamp DEFAULT now());
    CREATE INDEX ON bare_slots (status);
    INSERT INTO bare_slots (coolify_service_uuid, slot_name)
    SELECT gen_random_uuid(), 'pool-google-meet-' || lpad(n::text, 3, '0')
    FROM generate_series(1, {_SLOTS}) AS n;
"""
_SCRIPT = """
UPDATE bare_slots SET status = 'busy', assigned_bot_id = :client_id + 1, last_used_at = now() \
WHERE id = (SELECT id FROM bare_slots WHERE status = 'idle' ORDER BY last_used_at ASC NULLS FIRST \
LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING * \\gset
UPDATE bare_slots SET status = 'idle', assigned_bot_id = NULL WHERE id = :id;
"""


def prepare(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)


def refresh(url: str) -> None:
    """Vacuum and analyse the table before a round."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE bare_slots")


def cycles_per_second(url: str, *, clients: int, seconds: int) -> float:
    """Return the claims and releases per second of pgbench with prepared statements."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "cycle.sql"
        script.write_text(_SCRIPT)
        done = subprocess.run(
            [
                str(find_programs() / "pgbench"),
                *("--no-vacuum", "--protocol=prepared", f"--client={clients}", "--jobs=1"),
                *(f"--time={seconds}", f"--file={script}", url),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    return float(found[1])
