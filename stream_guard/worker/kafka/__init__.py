"""What of the worker is Faust and Kafka."""
