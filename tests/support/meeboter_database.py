"""Meeboter's database, as its own documents create it, filled with slots and bots."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

BOTS = """
CREATE TABLE bots (
  id SERIAL PRIMARY KEY,
  display_name VARCHAR(255) NOT NULL,
  user_id TEXT NOT NULL,
  meeting JSON NOT NULL,
  automatic_leave JSON NOT NULL,
  recording_enabled BOOLEAN NOT NULL DEFAULT false,
  status VARCHAR(255) NOT NULL DEFAULT 'DEPLOYING'
);
"""
POOL = """
CREATE TABLE bot_pool_slots (
  id SERIAL PRIMARY KEY,
  coolify_service_uuid VARCHAR(255) NOT NULL UNIQUE,
  slot_name VARCHAR(255) NOT NULL,
  status VARCHAR(50) NOT NULL DEFAULT 'idle',
  assigned_bot_id INTEGER REFERENCES bots(id),
  last_used_at TIMESTAMP,
  error_message TEXT,
  created_at TIMESTAMP DEFAULT NOW()
);
CREATE INDEX idx_bot_pool_slots_status ON bot_pool_slots(status);
CREATE TABLE bot_pool_queue (
  id SERIAL PRIMARY KEY,
  bot_id INTEGER NOT NULL REFERENCES bots(id),
  priority INTEGER NOT NULL DEFAULT 100,
  queued_at TIMESTAMP DEFAULT NOW(),
  timeout_at TIMESTAMP NOT NULL,
  UNIQUE(bot_id)
);
CREATE INDEX idx_bot_pool_queue_priority ON bot_pool_queue(priority, queued_at);
"""
CAMEL_CASE = """
ALTER TABLE bots RENAME COLUMN display_name TO "botDisplayName";
ALTER TABLE bots RENAME COLUMN meeting TO "meetingInfo";
ALTER TABLE bot_pool_slots RENAME COLUMN coolify_service_uuid TO "coolifyServiceUuid";
ALTER TABLE bot_pool_slots RENAME COLUMN slot_name TO "slotName";
ALTER TABLE bot_pool_slots RENAME COLUMN assigned_bot_id TO "assignedBotId";
ALTER TABLE bot_pool_queue RENAME COLUMN bot_id TO "botId";
ALTER TABLE bot_pool_queue RENAME COLUMN timeout_at TO "timeoutAt";
"""
LINK = "https://meet.google.com/abc-defg-hij"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeeboterTables:
    """Fills Meeboter's tables and reads them."""

    url: str
    meeting: Mapping[str, Any] = field(
        default_factory=lambda: {"meetingUrl": LINK, "platform": "google-meet"}
    )

    def create(self) -> None:
        self.execute(BOTS)
        self.execute(POOL)

    def add_bot(self, status: str, **meeting: Any) -> int:
        return self._insert(
            "INSERT INTO bots (display_name, user_id, meeting, automatic_leave, status) "
            "VALUES (%s, 'user-1', %s, %s, %s) RETURNING id",
            f"Bot {status}",
            json.dumps({**self.meeting, **meeting}),
            json.dumps({"waitingRoomTimeout": 60_000}),
            status,
        )

    def add_slot(self, uuid: str, name: str, status: str = "idle", bot: int | None = None) -> int:
        return self._insert(
            "INSERT INTO bot_pool_slots (coolify_service_uuid, slot_name, status, assigned_bot_id) "
            "VALUES (%s, %s, %s, %s) RETURNING id",
            uuid,
            name,
            status,
            bot,
        )

    def queue_bot(self, bot: int, *, priority: int = 100, seconds: int = 500) -> None:
        self._insert(
            "INSERT INTO bot_pool_queue (bot_id, priority, timeout_at) "
            "VALUES (%s, %s, (now() AT TIME ZONE 'UTC') + make_interval(secs => %s)) RETURNING id",
            bot,
            priority,
            seconds,
        )

    def contents(self) -> list[Any]:
        """Return all rows of all tables, to show that nothing changed."""
        tables = self.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        )
        return [
            (table, self.execute(f'SELECT to_jsonb(t) FROM "{table}" t ORDER BY 1'))
            for (table,) in sorted(tables)
        ]

    def execute(self, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text, parameters or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def _insert(self, text: str, *parameters: Any) -> int:
        ((row_id,),) = self.execute(text, *parameters)
        return int(row_id)
