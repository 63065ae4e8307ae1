"""The part of the worker that knows Faust and aiokafka."""
