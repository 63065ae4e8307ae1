"""What a judge's answer makes of a finding: it stands, it is none, or it tells that there was no answer."""

from __future__ import annotations

from msgspec.structs import replace

from stream_guard.model import Finding, Json
from stream_guard.ports import Answer


def is_answered(answer: Answer | None) -> bool:
    """Whether an answer says yes or no; "I cannot tell" is no answer."""
    return answer is not None and answer.violated is not None


def judged_finding(finding: Finding, answer: Answer | None) -> Finding | None:
    """Return the finding as it stands after an answer, None where nothing is left of it.

    It depends on its arguments alone: whoever applies the same answer, now or in a replay, gets the same finding.
    """
    inquiry = finding.inquiry
    if inquiry is None:
        return finding
    if answer is None or answer.violated is None:
        if not inquiry.tells_unanswered:
            return None
        detail, said = f"no judge has said whether this keeps the rule: {finding.detail}", {"says": "no answer"}
        return _with(finding, detail, said)
    if not answer.violated:
        return None
    told = {"says": "broken", "confidence": answer.confidence, "why": answer.explanation, "inquiry": answer.id}
    return _with(finding, f"a judge says that this breaks the rule: {finding.detail}", told)


def _with(finding: Finding, detail: str, said: dict[str, Json]) -> Finding:
    return replace(finding, inquiry=None, detail=detail, evidence={**finding.evidence, "judge": said})
