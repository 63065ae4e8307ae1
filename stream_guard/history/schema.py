"""The tables, in the SQL that SQLite and Postgres share."""

from __future__ import annotations

from typing import Final

VERSION: Final = 1

# The whole record is in ``body``, as JSON in ASCII: ids come from agents, and Postgres stores neither NUL characters
# nor halves of surrogate pairs. The other columns are for finding it; ids in them are digests.
TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS sg_history (version BIGINT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS sg_audit (number BIGINT PRIMARY KEY, digest TEXT NOT NULL, body TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS sg_reviews (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, opened DOUBLE PRECISION NOT NULL,
        expires DOUBLE PRECISION, binding TEXT NOT NULL, attempt TEXT NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_reviews_binding ON sg_reviews (binding)",
    "CREATE INDEX IF NOT EXISTS sg_reviews_attempt ON sg_reviews (attempt)",
    "CREATE INDEX IF NOT EXISTS sg_reviews_status ON sg_reviews (status, opened)",
    """CREATE TABLE IF NOT EXISTS sg_incidents (
        id TEXT PRIMARY KEY, status TEXT NOT NULL, opened DOUBLE PRECISION NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_incidents_status ON sg_incidents (status, opened)",
    """CREATE TABLE IF NOT EXISTS sg_timeline (
        incident TEXT NOT NULL, number BIGINT NOT NULL, entry TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (incident, number), UNIQUE (incident, entry))""",
    "CREATE TABLE IF NOT EXISTS sg_rulings (attempt TEXT PRIMARY KEY, call TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS sg_rulings_call ON sg_rulings (call)",
    "CREATE TABLE IF NOT EXISTS sg_ended (session TEXT PRIMARY KEY, body TEXT NOT NULL)",
)
