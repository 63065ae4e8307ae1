"""What a rule that stops takes from its caller: whoever is stopped may say something else the next time."""

from __future__ import annotations

from collections.abc import Iterator, Set

from stream_guard.errors import Problem
from stream_guard.judge.model import Scope
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.message_parts import Code, listed, printable

_TENANT = "tenant"  # the label that a token gives


def believed_words(policy: Policy) -> list[Problem]:
    """Return a warning for each rule that stops calls by labels, runs, parts or names that the caller writes."""
    believed = {_TENANT, *(name for spec in policy.rules for name in spec.set_labels)}
    found = []
    for spec in policy.rules:
        words = list(dict.fromkeys(_words_of(spec, believed))) if spec.stops else []
        if words:
            text = (
                f"stops calls by what their caller says: {listed(words)}; "
                "a token can say labels instead of the caller (docs/security.md, What a caller's word is worth)"
            )
            found.append(Problem(spec.place, printable(text), Code.CALLER.value, spec.id, warning=True))
    return found


def _words_of(spec: RuleSpec, believed: Set[str]) -> Iterator[str]:
    """Yield what the key, the scope and the conditions of a rule read that a caller writes."""
    for part in spec.key:
        if part == "run" or _is_doubtful_label(part, believed):
            yield part
    if spec.scope is not Scope.SESSION:
        yield "run" if spec.scope is Scope.RUN else "part"
    for condition in (spec.when, spec.unless):
        for leaf in condition.leaves if condition is not None else ():
            text = leaf.path.text
            if text in ("agent", "run_id", "session.part") or _is_doubtful_label(text, believed):
                yield text


def _is_doubtful_label(path: str, believed: Set[str]) -> bool:
    root, _, name = path.partition(".")
    return root == "labels" and name not in believed
