"""Apache Kafka: addresses, connections, and writing to a topic. Reading from one is a source, in ``sources``."""
