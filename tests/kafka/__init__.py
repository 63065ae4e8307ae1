"""A real Apache Kafka for tests and development: fetched with Maven, started on loopback, stopped by its process id."""
