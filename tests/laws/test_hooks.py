"""Each hook, used by a plugin that brings one thing through it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pytest

import stream_guard as sg
from stream_guard.diff_axes import AxisValues, DiffAxis, Sides
from stream_guard.errors import PluginError, Problem
from stream_guard.judge.model import Alert
from stream_guard.judge.ports import Answer
from stream_guard.policy.load import load_policy
from stream_guard.ports import Decoder, Dialect, Document, Question, Record, Sink, TokenSource
from stream_guard.registry import PluginInfo, Registry, build_registry
from stream_guard.settings import PluginSettings
from stream_guard.similarity import Similarity


class NoCallOnSunday(sg.Rule[sg.Params, sg.NoState]):
    """Nothing is called."""

    kind = "no_call_on_sunday"


class Plain(Decoder):
    """Reads a format of one word per record."""

    def decode(self, record: Record) -> Sequence[sg.Event]:
        return [sg.UserMessage(session_id="s", text=record.value.decode())]


class Shelf:
    """Keeps alerts."""

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        return cls()

    def send(self, alerts: Sequence[Alert]) -> None:
        self.kept = list(alerts)

    def flush(self) -> int:
        return 0

    def close(self) -> None:
        self.kept = []


class Latin:
    """Reads policies written in Latin."""

    name = "latin"

    def recognises(self, document: Document) -> bool:
        return "regulae" in document.data

    def translate(self, document: Document) -> tuple[dict[str, Any], Sequence[Problem]]:
        return {"rules": document.data["regulae"]}, ()


class Length:
    """Compares how long recordings are."""

    name: ClassVar[str] = "length"
    unit: ClassVar[str] = "turns"
    statistic: ClassVar[Literal["median", "mean"]] = "median"
    scale: ClassVar[Literal["relative", "rate", "own"]] = "relative"
    better: ClassVar[Literal["lower", "higher", "same"]] = "same"

    def measure(self, sides: Sides) -> AxisValues:
        lengths = [(float(len(old.turns)), float(len(new.turns))) for old, new in sides.sessions]
        return AxisValues(baseline=tuple(old for old, _ in lengths), candidate=tuple(new for _, new in lengths))


class Drawer(TokenSource):
    """Has always the same token."""

    @classmethod
    def open(cls, settings: Any) -> Self:
        return cls()

    def fetch(self) -> sg.LoginToken:
        return sg.LoginToken("t0ken")


def load(plugin: object) -> tuple[Registry, PluginInfo]:
    registry = build_registry(extra=[plugin])
    info = next(info for info in registry.plugins if info.name == type(plugin).__name__)
    return registry, info


def test_hook_stream_guard_rules() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            return [NoCallOnSunday]

    registry, info = load(Bringer())
    assert registry.kinds["no_call_on_sunday"] is NoCallOnSunday
    assert info.provides == {"rules": ("no_call_on_sunday",)}


def test_hook_stream_guard_decoders() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_decoders(self) -> dict[str, type[Decoder]]:
            return {"plain": Plain}

    registry, info = load(Bringer())
    assert registry.decoders["plain"] is Plain
    assert info.provides == {"decoders": ("plain",)}


def test_a_decoder_that_lacks_methods_is_refused_with_the_base_to_derive_from() -> None:
    class Bare:
        def decode(self, record: Record) -> Sequence[sg.Event]:
            return []

    class Bringer:
        @sg.hookimpl
        def stream_guard_decoders(self) -> dict[str, Any]:
            return {"bare": Bare}

    with pytest.raises(
        PluginError, match=r'the decoder "bare" has no .*\bwaits\b.*; derive it from stream_guard\.Decoder'
    ):
        load(Bringer())


def test_hook_stream_guard_sinks() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_sinks(self) -> dict[str, type[Sink]]:
            return {"shelf": Shelf}

    registry, info = load(Bringer())
    assert registry.sinks["shelf"] is Shelf
    assert info.provides == {"sinks": ("shelf",)}


def test_hook_stream_guard_dialects() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_dialects(self) -> list[type[Dialect]]:
            return [Latin]

    registry, info = load(Bringer())
    assert registry.dialects["latin"] is Latin
    assert info.provides == {"dialects": ("latin",)}


def test_hook_stream_guard_diff_axes() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_diff_axes(self) -> list[type[DiffAxis]]:
            return [Length]

    registry, info = load(Bringer())
    assert registry.axes["length"] is Length
    assert info.provides == {"diff_axes": ("length",)}


def test_hook_stream_guard_similarities() -> None:
    def same_length(first: str, second: str) -> float:
        return float(len(first) == len(second))

    class Bringer:
        @sg.hookimpl
        def stream_guard_similarities(self) -> dict[str, Similarity]:
            return {"length": same_length}

    registry, info = load(Bringer())
    assert registry.similarities["length"] is same_length
    assert info.provides == {"similarities": ("length",)}


def test_hook_stream_guard_policy_packs(tmp_path: Path) -> None:
    file = tmp_path / "clinic.yaml"
    file.write_text("rules: [{id: no-diagnosis, kind: no_call, params: {tool: diagnose}}]")
    pack = sg.PolicyPack(name="clinic", summary="Agents that book visits.", file=file)

    class Bringer:
        @sg.hookimpl
        def stream_guard_policy_packs(self) -> list[sg.PolicyPack]:
            return [pack]

    registry, info = load(Bringer())
    assert registry.policy_packs["clinic"] is pack
    assert info.provides == {"policy_packs": ("clinic",)}
    assert [rule.id for rule in load_policy("packs: [clinic]", registry).rules] == ["no-diagnosis"]


def test_hook_stream_guard_commands() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_commands(self) -> list[sg.Command]:
            return [sg.Command(name="compare", help="Compare.", target="no_such_module:main")]

    registry, info = load(Bringer())
    assert registry.commands["compare"].target == "no_such_module:main"
    assert info.provides == {"commands": ("compare",)}


def test_hook_stream_guard_token_sources() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_token_sources(self) -> dict[str, type[TokenSource]]:
            return {"drawer": Drawer}

    registry, info = load(Bringer())
    assert registry.token_sources["drawer"].open(None).fetch().text == "t0ken"
    assert info.provides == {"token_sources": ("drawer",)}


def test_hook_stream_guard_judge() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_judge(self, question: Question) -> Answer | None:
            return Answer(violated="refund" in question.text, confidence=0.9)

    registry, info = load(Bringer())
    answer = registry.manager.hook.stream_guard_judge(question=Question(rule="be kind", text="no refund for you"))
    assert answer == Answer(violated=True, confidence=0.9)
    assert info.provides == {"judge": ("Bringer",)}


def test_judge_that_passes_leaves_the_question_to_the_next() -> None:
    class Silent:
        @sg.hookimpl(tryfirst=True)
        def stream_guard_judge(self, question: Question) -> Answer | None:
            return None

    class Sure:
        @sg.hookimpl
        def stream_guard_judge(self, question: Question) -> Answer | None:
            return Answer(violated=False, confidence=1.0)

    hook = build_registry(extra=[Silent(), Sure()]).manager.hook
    assert hook.stream_guard_judge(question=Question(rule="", text="")) == Answer(violated=False, confidence=1.0)


def test_misspelt_hook_is_refused() -> None:
    class Hurried:
        @sg.hookimpl
        def stream_guard_rule(self) -> list[sg.RuleType]:
            return [NoCallOnSunday]

    with pytest.raises(PluginError, match="stream_guard_rule"):
        build_registry(extra=[Hurried()])


def test_hook_with_an_argument_that_does_not_exist_is_refused() -> None:
    class Hopeful:
        @sg.hookimpl
        def stream_guard_rules(self, settings: object) -> list[sg.RuleType]:
            return [NoCallOnSunday]

    with pytest.raises(PluginError, match="settings"):
        build_registry(extra=[Hopeful()])


def test_kind_that_exists_already_is_refused_and_both_owners_are_named() -> None:
    class First:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            return [NoCallOnSunday]

    class Second(First):
        pass

    with pytest.raises(PluginError, match=r'"no_call_on_sunday" comes from two plugins, "First" and "Second"'):
        build_registry(extra=[First(), Second()])


def test_hook_that_raises_is_an_error_that_names_the_plugin() -> None:
    class Broken:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            raise RuntimeError("no disk")

    with pytest.raises(PluginError, match=r'"Broken" failed in stream_guard_rules.*no disk'):
        build_registry(extra=[Broken()])


def test_two_registries_share_nothing() -> None:
    class Bringer:
        @sg.hookimpl
        def stream_guard_rules(self) -> list[sg.RuleType]:
            return [NoCallOnSunday]

    build_registry(extra=[Bringer()])
    assert "no_call_on_sunday" not in build_registry().kinds


def test_allow_list_loads_nothing_else() -> None:
    registry = build_registry(PluginSettings(allow=("formats",)))
    assert [info.name for info in registry.plugins] == ["formats"]
    assert registry.kinds == {}


def test_allow_list_that_names_what_is_not_installed_is_refused() -> None:
    with pytest.raises(PluginError, match="no_such_pack"):
        build_registry(PluginSettings(allow=("no_such_pack",)))


def test_blocked_pack_brings_nothing() -> None:
    assert "rules" not in {info.name for info in build_registry(PluginSettings(block=("rules",))).plugins}
