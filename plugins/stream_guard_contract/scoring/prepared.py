"""A contract that is ready to score: what depends on it alone is made once, for every set of recordings."""

from __future__ import annotations

from typing import Final

from stream_guard import Registry
from stream_guard_contract.document.loading import Contract
from stream_guard_contract.scoring.cell_scorer import ScoredInvariant
from stream_guard_contract.scoring.compiling import CompiledContract, compile_contract
from stream_guard_contract.scoring.rule_run import RuleRuns
from stream_guard_contract.scoring.session_scope import SessionScope


class ContractRules:
    """The rules of a contract that compares with certain baselines, and its invariants as they are scored."""

    def __init__(self, contract: Contract, compiled: CompiledContract, scope: SessionScope) -> None:
        self.completes = compiled.completes
        self.invariants = [ScoredInvariant(one, contract, compiled) for one in contract.invariants]
        self.runs = RuleRuns(contract, compiled, scope)


class PreparedContract:
    """A contract, the scope of its sessions, and the rules that were made of it last."""

    def __init__(self, contract: Contract, registry: Registry) -> None:
        self.contract = contract
        self.registry = registry
        self.scope = SessionScope(contract)
        self._baselines: dict[str, str] = {}
        self._rules: ContractRules | None = None

    def rules(self, baselines: dict[str, str]) -> ContractRules:
        """Return the rules that compare with these answers, which are by prompt."""
        if self._rules is None or self._baselines != baselines:
            compiled = compile_contract(self.contract, self.registry, baselines)
            self._rules, self._baselines = ContractRules(self.contract, compiled, self.scope), baselines
        return self._rules


# Of the contract that was scored last: its runs follow each other. One at a time uses it.
_idle: Final[list[PreparedContract]] = []


def take(contract: Contract, registry: Registry) -> PreparedContract:
    """Return the contract, prepared: as it was given back, or anew."""
    try:
        prepared = _idle.pop()  # at once, not after a look: another thread may want it too
    except IndexError:
        return PreparedContract(contract, registry)
    is_same = prepared.contract is contract and prepared.registry is registry
    return prepared if is_same else PreparedContract(contract, registry)


def give_back(prepared: PreparedContract) -> None:
    """Keep what was prepared for the next time."""
    _idle[:] = [prepared]
