"""The policy packs that come with the project: rules for common sorts of agents, with tests beside them."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import stream_guard as sg

_SUMMARIES: Final = {
    "customer_support": "Agents that change customers' records: who it is, what they agreed to, what is told to them.",
    "money_movement": "Agents that pay, refund or buy: amounts, payees, repetition, and payments nobody asked for.",
    "personal_assistant": "Agents that read what strangers write: injected instructions and acts nobody asked for.",
    "runaway": "Any agent: loops, storms of errors, and sessions that go on without end.",
    "workplace": "Agents with a shell, files and services of a company: harm to people, records and safeguards.",
}


def policy_packs() -> list[sg.PolicyPack]:
    """Return the packs in order of their names."""
    folder = files(__package__) / "packs"
    return [
        sg.PolicyPack(name=name, summary=summary, file=folder / f"{name}.yaml") for name, summary in _SUMMARIES.items()
    ]
