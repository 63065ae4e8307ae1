"""The worker: it evaluates Kafka topics together with the other workers of its group.

Everything that knows Faust or aiokafka is in ``worker.kafka``. Faust provides the group, the assignment and the
recovery of the changelog. Its agents are not used: fetched batches go straight to the stages, one at a time, so that no
record waits in a queue that a rebalance would empty.
"""
