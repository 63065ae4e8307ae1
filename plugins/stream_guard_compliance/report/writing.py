"""Writes the account of a prompt: as JSON, as Markdown, or as one HTML file with the prompt marked up."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from stream_guard import SettingsError, redact_text
from stream_guard.reports import ReportForm, code, load_template, visible
from stream_guard_compliance.report.account import PromptAccount, SentenceAccount


def write_account(account: PromptAccount, form: ReportForm) -> str:
    """Return the account in a form; raises SettingsError for a form that a prompt has none of."""
    if form is ReportForm.JSON:
        data = {**msgspec.to_builtins(account), "prompt": redact_text(account.prompt), "totals": account.totals()}
        data["coverage"] = account.coverage()
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if form is ReportForm.MARKDOWN:
        return "\n".join(_markdown(account)) + "\n"
    if form is ReportForm.HTML:
        template = load_template("stream_guard_compliance.report", "account.html.j2", lines=_lines)
        return template.render(account=account, totals=account.totals(), pieces=list(pieces_of(account)))
    raise SettingsError(f"--report {form}: a report on a prompt is json, markdown or html")


def _lines(text: str) -> str:
    """Return a text with its lines, and with what is not seen spelled out."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _markdown(account: PromptAccount) -> Iterator[str]:
    yield "# Compliance"
    yield ""
    yield f"{account.coverage()}."
    yield ""
    if account.unchecked:
        yield "Not checked:"
        yield ""
        for one in account.unchecked:
            part = "in part: " if one.start in account.covered else ""
            yield f"- line {one.line}: {code(one.text)} ({part}{one.why or one.standing})"
        yield ""
    yield ", ".join(f"{count} {standing}" for standing, count in sorted(account.totals().items())) or "no sentence"
    yield ""
    if account.sessions:
        yield (
            f"{account.sessions} sessions: {account.violated} violated, {account.satisfied} satisfied, "
            f"{account.inconclusive} inconclusive; {account.tokens_used} tokens, ${account.cost_usd:.4f}"
        )
        yield ""
        yield f"{account.score()}."
        yield ""
    if account.broken:
        yield "Broken:"
        yield ""
        for one in account.broken:
            yield f"- line {one.line}: {code(one.text)} (in {one.violated} of {account.sessions} sessions)"
        yield ""
    yield "| line | sentence | read as | checked by | violated | kept | open | why |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in account.sentences:
        if one.standing != "context":
            cells = (str(one.line), code(one.text), f"{one.standing}: {one.kind}", ", ".join(one.checks))
            counts = (str(one.violated), str(one.satisfied), str(one.inconclusive))
            yield f"| {' | '.join((*cells, *counts, code(one.why) if one.why else ''))} |"


def pieces_of(account: PromptAccount) -> Iterator[tuple[str, SentenceAccount | None]]:
    """Yield the whole prompt in pieces, each with the statement that it is; nothing is left out and nothing twice."""
    at = 0
    for one in account.sentences:
        if one.start < at:
            continue  # another statement of the same sentence
        if one.start > at:
            yield redact_text(account.prompt[at : one.start]), None
        yield redact_text(account.prompt[one.start : one.end]), one
        at = max(one.end, one.start)
    if at < len(account.prompt):
        yield redact_text(account.prompt[at:]), None
