"""What people said to learned rules, remembered in a file beside the policy."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stream_guard.errors import SettingsError
from stream_guard.judge.model import resolved


@resolved
class Answers(msgspec.Struct, forbid_unknown_fields=True):
    """Ids of rules that were accepted and refused, each with what it said then."""

    accepted: dict[str, str] = {}
    refused: dict[str, str] = {}

    def accept(self, rule_id: str, words: str) -> None:
        """Remember a yes; it takes the place of a no."""
        self.refused.pop(rule_id, None)
        self.accepted[rule_id] = words

    def refuse(self, rule_id: str, words: str) -> None:
        """Remember a no; it takes the place of a yes."""
        self.accepted.pop(rule_id, None)
        self.refused[rule_id] = words

    def are_given(self, rule_id: str) -> bool:
        """Whether somebody has said something to a rule."""
        return rule_id in self.accepted or rule_id in self.refused

    def as_text(self) -> str:
        """Return the file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def answers_file(policy: Path) -> Path:
    """Return where the answers about a policy are kept."""
    return policy.with_name(f"{policy.stem}.learned.json")


def read_answers(file: Path) -> Answers:
    """Return the answers of a file; none where there is no file, SettingsError where it is something else."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Answers)
    except FileNotFoundError:
        return Answers()
    except (OSError, msgspec.MsgspecError) as error:
        advice = "mend it, or move it away: then every rule is asked about again"
        raise SettingsError(f"{file}: no answers to learned rules: {error}; {advice}") from None
