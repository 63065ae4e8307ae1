"""Take the rules of policy packs and of a team's shared files into a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from stream_guard.errors import PolicyError, Problem
from stream_guard.judge.model import Json
from stream_guard.policy.document import PolicyDocument, read_document
from stream_guard.policy.message_parts import Code, Steps, did_you_mean, listed, printable, show
from stream_guard.policy.native import NativePolicy, scope_words, to_native, with_todays_words
from stream_guard.ports import PolicyPack
from stream_guard.registry import Registry

_LISTS: Final = ("without", "shadow", "enforce")  # of the ids of its rules
PREFIX: Final = "pack:"  # stands before a pack's name where a file is named


def read_pack(pack: PolicyPack) -> dict[str, Json]:
    """Return a pack as data that the caller may change; raises PolicyError where it is not readable."""
    return deepcopy(_parse(pack.file.read_bytes(), pack.name))


@lru_cache(maxsize=32)
def _parse(content: bytes, name: str) -> dict[str, Json]:
    """Return the pack's data, cached: YAML takes long, and `init`, a reload and every policy read the same packs."""
    document = read_document(content, f"{PREFIX}{name}")
    if document.problems:
        raise PolicyError(document.problems)
    form = document.data
    rules = form.get("rules") if isinstance(form, dict) else None
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and "id" in rule for rule in rules):
        message = "a policy pack is a mapping with `rules:`, and each of its rules has an id"
        raise PolicyError([Problem(document.place(), message, Code.NOT_A_POLICY)])
    return dict(form)


def with_packs(
    native: NativePolicy, document: PolicyDocument, registry: Registry, file_read: Callable[[Path], None]
) -> NativePolicy:
    """Return the policy with the rules and tool classes of its packs behind its own.

    A rule of the policy takes the place of the pack's rule with the same id. Tools of a class count wherever they are
    listed, in the policy or in a pack. Problems of a pack's rule are reported where the policy names the pack.
    ``file_read`` is called with each pack's file before it is read.
    """
    form = native.form
    if not isinstance(form, dict) or not isinstance(form.get("packs"), list):
        return native
    own = form.get("rules", [])
    if not isinstance(own, list):
        return native  # reported with the form
    own_ids = {rule["id"] for rule in own if isinstance(rule, dict) and isinstance(rule.get("id"), str)}
    rules, classes, problems = list(own), form.get("tool_classes", {}), list(native.problems)
    origins: dict[int, Steps] = dict(native.origins)
    for number, raw in enumerate(form["packs"]):
        at = ("packs", number)
        name = raw.get("pack") if isinstance(raw, dict) else raw
        if not isinstance(name, str) or not name:
            continue  # reported with the form
        if name not in registry.policy_packs:
            message = f"no policy pack is called {show(name)}{_advice(name, registry.policy_packs)}"
            problems.append(Problem(document.place(*at), printable(message), Code.PACK))
            continue
        known = registry.policy_packs[name]
        if isinstance(known.file, Path):  # not so inside a zip
            file_read(known.file)
        pack = read_pack(known)
        version = pack.get("version")
        for word in scope_words(pack["rules"], version):
            text = f"pack {show(name)}, rule {show(pack['rules'][word.rule]['id'])}: {word.warning}"
            problems.append(Problem(document.place(*at), printable(text), Code.OLD_WORD, warning=True))
        pack["rules"] = with_todays_words(pack["rules"], version)
        taken = list(_rules(raw, pack["rules"], own_ids))
        origins |= {len(rules) + index: at for index in range(len(taken))}
        rules += taken
        classes = join_classes(classes, pack.get("tool_classes", {}))
        problems += _unknown_ids(raw, at, pack["rules"], document)
    joined = {"tool_classes": classes} if classes else {}
    return replace(native, form={**form, **joined, "rules": rules}, problems=problems, origins=origins)


def _rules(raw: Json, rules: Sequence[Json], own_ids: set[str]) -> Iterator[Json]:
    """Yield the rules that are taken in: all but those left out, and those that the policy writes itself."""
    left_out, quiet, loud = (_texts(raw, key) for key in _LISTS)
    all_quiet = isinstance(raw, dict) and raw.get("mode") == "shadow"
    for rule in rules:
        if rule["id"] not in left_out and rule["id"] not in own_ids:
            is_quiet = all_quiet or rule["id"] in quiet or (rule.get("mode") == "shadow" and rule["id"] not in loud)
            yield {**rule, "mode": "shadow" if is_quiet else "enforce"}


def _unknown_ids(raw: Json, at: Steps, rules: Sequence[Json], document: PolicyDocument) -> Iterator[Problem]:
    ids = [str(rule.get("id")) for rule in rules]
    for key in _LISTS:
        for index, rule_id in enumerate(_texts(raw, key)):
            if rule_id not in ids:
                advice = did_you_mean(rule_id, ids) or f"; it has {listed(ids)}"
                message = f"the pack has no rule {show(rule_id)}{advice}"
                yield Problem(document.place(*at, key, index), printable(message), Code.PACK)


def _texts(raw: Json, key: str) -> list[str]:
    listed_texts = raw.get(key) if isinstance(raw, dict) else None
    return [text for text in listed_texts if isinstance(text, str)] if isinstance(listed_texts, list) else []


def join_classes(own: Json, added: Mapping[str, Json]) -> Json:
    """Return tool classes with the members of both, the policy's first, so that its places stay what they are."""
    if not isinstance(own, dict):
        return own  # reported with the form
    joined = dict(own)
    for name, members in added.items():
        before = joined.get(name, [])
        first = [before] if isinstance(before, str) else before
        if isinstance(first, list):
            more = [members] if isinstance(members, str) else members
            joined[name] = [*first, *(member for member in more if member not in first)]
    return joined


def _advice(name: str, known: Mapping[str, PolicyPack]) -> str:
    return did_you_mean(name, known) or (f"; there are {listed(known)}" if known else "; none is installed")


def with_shared(
    native: NativePolicy,
    document: PolicyDocument,
    registry: Registry,
    folder: Path | None,
    file_read: Callable[[Path], None],
) -> NativePolicy:
    """Return the policy with the rules and tool classes of its shared files behind its own.

    A rule of the policy that has the id of a shared one is a problem: what a team agreed on is not replaced. Shared
    files may take in packs, no further files. ``file_read`` is called with each file before it is read.
    """
    form = native.form
    if not isinstance(form, dict) or not isinstance(form.get("shared"), list):
        return native
    own = form.get("rules", [])
    if not isinstance(own, list):
        return native  # reported with the form
    rules, classes, problems = list(own), form.get("tool_classes", {}), list(native.problems)
    origins: dict[int, Steps] = dict(native.origins)
    for number, raw in enumerate(form["shared"]):
        if not isinstance(raw, str) or not raw:
            continue  # reported with the form
        at = ("shared", number)
        if folder is None:
            message = "a policy that is given as text takes in no files; write it into a file"
            problems.append(Problem(document.place(*at), message, Code.SHARED))
            continue
        path = folder / Path(raw).expanduser()
        file_read(path)
        taken, more, found = _read(path, registry, file_read)
        problems += [*found, *_replaced(own, taken, document)]
        origins |= {len(rules) + index: at for index in range(len(taken))}
        rules += taken
        classes = join_classes(classes, more)
    joined = {"tool_classes": classes} if classes else {}
    return replace(native, form={**form, **joined, "rules": rules}, problems=problems, origins=origins)


def _read(
    path: Path, registry: Registry, file_read: Callable[[Path], None]
) -> tuple[list[Json], dict[str, Json], list[Problem]]:
    """Return the rules of a shared file with those of its packs, its tool classes, and what is wrong with it."""
    try:
        document = read_document(path)
    except PolicyError as error:
        return [], {}, list(error.problems)
    native = with_packs(to_native(document, registry), document, registry, file_read)
    problems = [*document.problems, *native.problems]
    form = native.form if isinstance(native.form, dict) else {}
    if "shared" in form:
        message = "a shared file takes in no further files; name them all in the file of the person"
        problems.append(Problem(document.place("shared"), message, Code.SHARED))
    rules, classes = form.get("rules"), form.get("tool_classes", {})
    if not isinstance(rules, list):
        message = "a shared file is a policy: a mapping with `rules` or `packs`"
        problems.append(Problem(document.place(), message, Code.NOT_A_POLICY))
        rules = []
    return rules, classes if isinstance(classes, dict) else {}, problems


def _replaced(own: list[Json], shared: list[Json], document: PolicyDocument) -> list[Problem]:
    ids = {rule["id"] for rule in shared if isinstance(rule, dict) and isinstance(rule.get("id"), str)}
    return [
        Problem(
            document.place("rules", number, "id"),
            printable(f"the rule {show(rule['id'])} is a shared one, which nobody replaces; give yours another id"),
            Code.SHARED,
        )
        for number, rule in enumerate(own)
        if isinstance(rule, dict) and rule.get("id") in ids
    ]
