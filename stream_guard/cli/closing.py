"""What check, run and replay say at their end: shadow findings, sessions that were cut, rules that saw nothing."""

from __future__ import annotations

from shlex import quote
from typing import Any

import msgspec
import typer

from stream_guard.analysis.never_saw import in_words, never_saw
from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.policy.message_parts import printable


def say_at_end(policy: Policy, counts: Counts, *, recorded: bool, as_json: bool = False) -> None:
    """Say it on standard error, in lines for people or as one line of JSON for machines.

    A ``recorded`` session that is cut by its silence goes on after it. On a stream, silence is how sessions end.
    """
    shadow = shadow_findings(policy, counts)
    cut = counts.closed["idle"] if recorded else 0
    missing = never_saw(policy, counts)
    if as_json:
        said: dict[str, Any] = {"shadow_findings": shadow, "cut_sessions": cut, "never_saw": missing}
        if said := {name: value for name, value in said.items() if value}:
            typer.echo(msgspec.json.encode(said).decode(), err=True)
        return
    if shadow:
        listed = ", ".join(f"{rule} ({number:,})" for rule, number in shadow.items())
        typer.echo(printable(f"{sum(shadow.values()):,} findings in shadow mode, not sent: {listed}"), err=True)
        see = "check --shadow lists them; " if recorded else ""
        file = quote(policy.file) if policy.file else "POLICY"
        typer.echo(f"{see}to take a rule into force: stream-guard policy promote {printable(file)} RULE", err=True)
    if cut:
        what = "1 session was" if cut == 1 else f"{cut:,} sessions were"
        advice = "what came after the silence counts as new; a longer sessions.idle in the policy keeps them whole"
        typer.echo(f"{what} cut by sessions.idle ({policy.idle:g} s): {advice}", err=True)
    for line in in_words(missing):
        typer.echo(line, err=True)


def shadow_findings(policy: Policy, counts: Counts) -> dict[str, int]:
    """Return how many findings each rule in shadow mode has, by rule id; none without any."""
    return {spec.id: number for at, spec in enumerate(policy.rules) if spec.shadow and (number := counts.findings[at])}
