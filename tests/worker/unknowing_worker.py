"""``stream-guard worker``, but the client that reads does not know some topics of the group while a file is there.

The environment variable UNKNOWN names the file, which has the ending of those topics. So it is with a broker that has
not heard of a new topic: it leaves the topic out when a client asks for it. With the variable INATTENTIVE, a leader
does not notice by itself that it has learned of a topic. With GROUPLESS, the client fails as it does when the brokers
have not registered yet at its first question.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator

from stream_guard.cli.process import main

_partitions = ClusterMetadata.partitions_for_topic


def _partitions_that_are_known(self: ClusterMetadata, topic: str) -> set[int] | None:
    reads = threading.current_thread() is not threading.main_thread()  # the other clients write, and ask about topics
    if reads and (ending := _unknown()) and topic.endswith(ending):
        return None
    found: set[int] | None = _partitions(self, topic)
    return found


def _unknown() -> str:
    try:
        return Path(os.environ["UNKNOWN"]).read_text()
    except (KeyError, FileNotFoundError):
        return ""


async def _find_no_coordinator(_: GroupCoordinator) -> None:
    raise AssertionError("Did we not perform bootstrap?")


if __name__ == "__main__":
    ClusterMetadata.partitions_for_topic = _partitions_that_are_known
    if "INATTENTIVE" in os.environ:
        GroupCoordinator._handle_metadata_update = lambda *_: None
    if "GROUPLESS" in os.environ:
        GroupCoordinator.ensure_coordinator_known = _find_no_coordinator
    main()
