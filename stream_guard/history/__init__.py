"""The history: audit records, reviews, incidents and ended sessions, in SQLite or Postgres."""
