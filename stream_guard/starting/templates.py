"""The texts of the files that a beginner gets besides the policy: settings, a compose file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from stream_guard.errors import SettingsError

SETTINGS: Final = """\
# Settings of stream-guard, made by `stream-guard init`.
# All of them, with what is in force: stream-guard config show --settings settings.yaml
# The environment goes before this file: STREAM_GUARD_LOG__FORMAT=json
plugins:
  # What may be loaded. Without this line, everything that is installed is.
  allow: [rules, formats, shell, sinks, dialects, diff, axes, contract, compliance, judge]
history:
  # Decisions, reviews and incidents.
  url: stream_guard_history.db
log:
  level: info
"""

COMPOSE: Final = """\
# Made by `stream-guard init --compose`: a broker, and a worker that watches the topic agent-events by policy.yaml.
# The image is built from the repository: docker build -f deploy/Dockerfile -t stream-guard .
#   docker compose up
# Alerts are in the topic stream-guard.alerts.
name: stream-guard

services:
  kafka:
    image: apache/kafka:4.1.1
    environment:
      KAFKA_NODE_ID: "1"
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: PLAINTEXT://:9092,CONTROLLER://:9093
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@kafka:9093
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: "1"
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"
    healthcheck:
      test: [CMD, /opt/kafka/bin/kafka-topics.sh, --bootstrap-server, "localhost:9092", --list]
      interval: 5s
      timeout: 10s
      retries: 20

  topics:
    image: apache/kafka:4.1.1
    depends_on: {kafka: {condition: service_healthy}}
    entrypoint: [/bin/sh, -c]
    command:
      - >-
        for topic in agent-events stream-guard.alerts stream-guard.dead-letters; do
        /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists
        --topic "$$topic" --partitions 3; done

  worker:
    image: ${STREAM_GUARD_IMAGE:-stream-guard}
    depends_on: {topics: {condition: service_completed_successfully}}
    command:
      - worker
      - kafka:///agent-events
      - --policy=/etc/stream-guard/policy.yaml
      - --alerts=kafka:stream-guard.alerts
      - --dead-letters=stream-guard.dead-letters
    environment:
      STREAM_GUARD_KAFKA__BOOTSTRAP_SERVERS: kafka:9092
    volumes: ["./policy.yaml:/etc/stream-guard/policy.yaml:ro"]
    read_only: true
    tmpfs: [/tmp]
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    restart: unless-stopped
"""


# Write the files that a beginner gets: all of them or none, and nothing that is there is overwritten unasked.


def refuse_to_overwrite(folder: Path, names: Iterable[str]) -> None:
    """Raise SettingsError where one of the files is there already."""
    targets = [folder / name for name in names]
    there = [str(target) for target in targets if target.exists() or target.is_symlink()]
    if there:
        raise SettingsError(f"not overwritten: {', '.join(there)}; name another folder with --into, or say --force")


def write_files(folder: Path, texts: Mapping[str, str], *, force: bool) -> list[Path]:
    """Write the files into the folder and return them; raises SettingsError where one is there already.

    A file that is replaced is replaced as a whole: a link is not followed, and no reader sees half of it.
    """
    targets = [folder / name for name in texts]
    if not force:
        refuse_to_overwrite(folder, texts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for target, text in zip(targets, texts.values(), strict=True):
            _replace(target, text)
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return targets


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
