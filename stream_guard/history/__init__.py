"""What must not be forgotten: audit records, reviews, incidents, sessions that were ended. SQLite or Postgres."""
