"""Classes of tools that every policy knows without declaring them, by the words of a name.

A class that a policy declares itself means what is written there; ``@write`` inside the policy's own ``write`` is the
class of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _doing(verbs: str) -> str:
    """Return the pattern of names whose verb is one of these, with or without a thing behind it."""
    return "~" + "|".join(f"{verb}|{verb}_*" for verb in verbs.split())


_LOOK: Final = "(find|get|lookup|look_up|search|fetch|retrieve|view|show|read|check|list|query)"
_PERSON: Final = (
    "(user|customer|client|patient|member|guest|passenger|traveler|traveller|subscriber|student|employee|resident"
    "|contact|caller|person|citizen|tenant|policyholder|applicant|beneficiary)"
)
_RECORD: Final = (
    "(account|profile|order|reservation|booking|ticket|appointment|claim|subscription|identity|chart|case"
    "|contract|loan|prescription|shipment|invoice|event|meeting|visit|membership|delivery|rental|enrollment|registration)"
)
_MONEY: Final = "(money|payment|fund|payout|refund|reimbursement|credit|wire|deposit|donation|remittance)"

_LOOKING_ON: Final = (
    "get list read search find lookup view show query check verify validate count calculate compute describe inspect "
    "compare think summarize summarise login logout authenticate"
)

STANDARD_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "read": (
        _doing(
            "get list read search find lookup fetch view show query check browse describe count grep glob look load "
            "retrieve inspect summarize summarise preview examine monitor scan"
        ),
    ),
    "delete": (_doing("delete remove erase wipe purge empty clear destroy drop trash discard unlink truncate"),),
    "write": (
        "@delete",
        _doing(
            "create update modify edit write cancel add set insert replace move copy rename rebook reschedule exchange "
            "change close assign apply patch reset approve reject place transfer merge commit revoke grant enable "
            "disable deactivate activate archive restore rotate register enroll save store upsert overwrite append "
            "attach detach lock unlock book schedule order return import submit install uninstall deploy"
        ),
    ),
    "egress": (
        _doing(
            "send forward reply email mail post publish share invite upload push tweet notify broadcast transmit "
            "dispatch deliver export"
        ),
    ),
    "money": (
        _doing("pay refund reimburse purchase buy withdraw disburse charge checkout"),
        f"~(send|transfer|make|create|issue|process|schedule|submit|approve|release|give)_*{_MONEY}*",
        "~place_order*|place_*_order*|*bank_transfer*|wire_*|payout*|schedule_transaction*|create_charge*|issue_*credit*",
    ),
    # Everything that does more than look, whatever it is called: also to open a page or a file from the net.
    "act": ("*", f"!{_doing(_LOOKING_ON)}"),
    "identify": (
        f"~{_LOOK}_*{_PERSON}*",
        f"~{_LOOK}_*{_RECORD}*",
        "~lookup_*|verify_*|authenticate*|identify|identify_*|confirm_identity*",
    ),
}
"""What each class stands for."""
