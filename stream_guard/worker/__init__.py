"""The worker: Faust brings the partitions and recovers their states, and everything else is the core's.

Faust keeps the group, the assignment and the changelog. Its agents are not used: the batches that were
fetched go straight to the judge, one at a time, so that nothing waits in a queue that could be emptied.
"""
