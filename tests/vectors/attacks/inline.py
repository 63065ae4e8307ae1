"""The guard and the gate, asked in the process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

import stream_guard as sg
from stream_guard.alerting.alerts import make_alert
from stream_guard.errors import StreamGuardError
from stream_guard.guard.gate import Gate, Ruling
from stream_guard.guard.inline import Guard
from stream_guard.guard.reviews import Review, Reviews
from stream_guard.history.database import open_database
from stream_guard.history.records import AnswerRefusedError
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Alert, Decision, Finding
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.load import load_policy
from stream_guard.running.assembly import Assembly
from stream_guard.settings import load_settings
from stream_guard.storage.stores import CheckpointStore
from tests.vectors.attacks.catalogue import Catalogue
from tests.vectors.attacks.expectations import Outcome
from tests.vectors.attacks.history import forge, is_sound, show_in_terminal
from tests.vectors.attacks.steps import plain_event
from tests.vectors.case import CannotRunError, WrongAnswerError
from tests.vectors.measures import registry


class Inline:
    """A guard, with a history unless the case says that there is none; restarts keep what is on disk."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        sections = dict(case.get("settings", {}))
        self._run = sections.pop("run", {})
        self._settings = load_settings(None, **sections)
        self._decoder = Assembly(self._settings, registry()).make_decoder("native")
        self._history = folder / "history.db"
        self._checkpoint = folder / "checkpoint.db"
        self._catalogue = Catalogue(case)
        stands_at = self._run.get("clock")
        # By which the gate's clock is ahead.
        self._seconds = 0.0 if stands_at is None else float(stands_at) - time.time()
        self._latest = ""  # the id of the latest review
        self._named: dict[str, str] = {}
        self._outcome = Outcome()
        self._open(case["policy"])

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Carry out a step."""
        method = getattr(self, f"_{action}", None)
        if action not in _STEPS or method is None:
            raise CannotRunError(f"the step {action} has no place in the process")
        told: dict[str, Any] = method(step)
        return told

    def finish(self) -> Outcome:
        """Publish the metrics and return what the case came to."""
        self._publish()
        return self._outcome

    def close(self) -> None:
        """Close what is on disk."""
        if self._database is not None:
            self._database.close()
        if self._store is not None:
            self._store.close()

    def _open(self, policy: Any) -> None:
        loaded = load_policy(json.dumps(policy), registry(), file="case.json")
        self._policy = policy
        self._version = loaded.version
        self._outcome.rules |= {rule.id for rule in loaded.rules}
        self._counts = Counts()
        self._metrics = CollectorRegistry()
        Metrics(self._counts, self._metrics).use_rules(loaded.rules)
        self._store = CheckpointStore(self._checkpoint) if self._run.get("checkpoint") else None
        guard = Guard(loaded, store=self._store, counts=self._counts, limits=self._settings.sessions, clock=self._now)
        self._guard = guard
        self._database = open_database(str(self._history)) if self._run.get("history", True) else None
        self._gate = None
        if self._database is not None:
            reviews = Reviews(self._database, self._settings.reviews, clock=self._now)
            self._gate = Gate(loaded, self._database, guard=guard, reviews=reviews, clock=self._now)

    def _now(self) -> float:
        return time.time() + self._seconds

    def _publish(self) -> None:
        self._outcome.alarms.read(generate_latest(self._metrics).decode())

    def _check(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            attempt = self._attempt(step["check"])
            answer = (self._gate or self._guard).check(attempt)
        except StreamGuardError as error:
            return {"action": "refused", "reason": str(error)}
        told: dict[str, Any] = {"action": answer.action.word, "reason": answer.reason}
        told |= {name: getattr(answer, name) for name in ("checked", "judged") if hasattr(answer, name)}
        self._note(answer, step.get("as"))
        return told

    def _attempt(self, check: dict[str, Any]) -> sg.ToolCall:
        """Return the call as an integration makes it: arguments that are text stay the text that the model wrote."""
        sent = self._catalogue.complete(plain_event(check))
        if "agent_path" in sent:
            sent["agent_path"] = tuple(sent["agent_path"])
        try:
            return sg.ToolCall(**{name: value for name, value in sent.items() if name != "kind"})
        except TypeError as error:
            raise CannotRunError(f"this runner does not know the field of a check: {error}") from None

    def _note(self, answer: Decision | Ruling, name: str | None) -> None:
        review = getattr(answer, "review", None)
        if review is not None:
            self._latest = review.id
            if name:
                self._named[name] = review.id
        found = answer.alerts if isinstance(answer, Ruling) else self._alerts(answer.findings)
        self._keep(found)

    def _alerts(self, findings: tuple[Finding, ...] | list[Finding]) -> list[Alert]:
        return [make_alert(finding, self._version) for finding in findings if not finding.shadow]

    def _keep(self, alerts: Any) -> None:
        self._outcome.alerts += [msgspec.to_builtins(alert) for alert in alerts]

    def _event(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._observe([step["event"]])

    def _events(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._observe(step["events"])

    def _observe(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        taken, alerts = 0, list[Alert]()
        for row in rows:
            record = sg.Record(value=json.dumps(self._catalogue.complete(plain_event(row))).encode())
            try:
                events = self._decoder.decode(record)
            except StreamGuardError:
                continue
            for event in events:
                taken += 1
                alerts += (
                    self._gate.observe(event) if self._gate is not None else self._alerts(self._guard.observe(event))
                )
        self._keep(alerts)
        return {"taken": taken, "found": [alert.rule_id for alert in alerts]}

    def _approve(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._answer(step["approve"], approves=True)

    def _reject(self, step: dict[str, Any]) -> dict[str, Any]:
        return self._answer(step["reject"], approves=False)

    def _answer(self, said: dict[str, Any], *, approves: bool) -> dict[str, Any]:
        try:
            gate, review = self._asked(said)
        except WrongAnswerError:
            return {"accepted": False}
        try:
            if approves:
                gate.reviews.approve(review, by=said.get("by", ""), arguments_digest=said.get("digest", ""))
            else:
                gate.reviews.reject(review, by=said.get("by", ""))
        except AnswerRefusedError:
            return {"accepted": False}
        return {"accepted": True}

    def _asked(self, said: dict[str, Any]) -> tuple[Gate, str]:
        """Return the gate, and the id of the review that is meant: the one that is named, or the latest."""
        if self._gate is None:
            raise CannotRunError("a guard without a history has no reviews")
        review = self._named.get(said["of"], "") if "of" in said else self._latest
        if not review:
            raise WrongAnswerError("nobody was asked: there is no review to speak of")
        return self._gate, review

    def _review(self, step: dict[str, Any]) -> dict[str, Any]:
        said = step["review"] if isinstance(step["review"], dict) else {}
        gate, review = self._asked(said)
        if said.get("through") == "terminal":
            return {"text": show_in_terminal(self._history, review)}
        found: Review | None = gate.reviews.get(review)
        return {"text": json.dumps(msgspec.to_builtins(found), ensure_ascii=False)}

    def _restart(self, step: dict[str, Any]) -> dict[str, Any]:
        self._publish()
        if step["restart"] != "kill" and self._store is not None:
            self._guard.commit()
        self.close()
        self._open(step.get("policy", self._policy))
        return {"findings": self._outcome.findings()}

    def _save(self, _step: dict[str, Any]) -> dict[str, Any]:
        self._guard.commit()
        return {}

    def _later(self, step: dict[str, Any]) -> dict[str, Any]:
        self._seconds += float(step["later"])
        return {}

    def _forge(self, step: dict[str, Any]) -> dict[str, Any]:
        _, review = self._asked(step["forge"])
        forge(self._history, review, {key: value for key, value in step["forge"].items() if key != "of"})
        return {}

    def _audit(self, _step: dict[str, Any]) -> dict[str, Any]:
        return {"ok": is_sound(self._history)}


_STEPS = frozenset(
    ("check", "event", "events", "approve", "reject", "review", "restart", "save", "later", "forge", "audit")
)
