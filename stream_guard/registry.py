"""What is installed: a fresh plugin manager from settings, and the tables made from it once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Final, NamedTuple

import pluggy

from stream_guard import hookspecs
from stream_guard.diff_axes import DiffAxis
from stream_guard.errors import PluginError
from stream_guard.judge.model import Json
from stream_guard.judge.rule import Rule, RuleType
from stream_guard.ports import Command, Decoder, Dialect, PolicyPack, Sink, TokenSource
from stream_guard.settings import PluginSettings
from stream_guard.similarity import SIMILARITIES, Similarity

_TABLES: Final = (
    "rules",
    "decoders",
    "sinks",
    "dialects",
    "diff_axes",
    "similarities",
    "policy_packs",
    "commands",
    "token_sources",
)


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One loaded plugin: its name, the distribution it came in, and what it provides."""

    name: str
    distribution: str
    version: str
    provides: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Registry:
    """Everything that plugins provide, by name, in an order that is the same on every machine."""

    manager: pluggy.PluginManager
    kinds: Mapping[str, RuleType]
    decoders: Mapping[str, type[Decoder]]
    sinks: Mapping[str, type[Sink]]
    dialects: Mapping[str, type[Dialect]]
    axes: Mapping[str, type[DiffAxis]]
    similarities: Mapping[str, Similarity]
    policy_packs: Mapping[str, PolicyPack]
    commands: Mapping[str, Command]
    token_sources: Mapping[str, type[TokenSource]]
    plugins: tuple[PluginInfo, ...] = field(default=())

    def make_rule(self, kind: str, params: Json) -> Rule[Any, Any]:
        """Return a rule of the kind; its parameters may name measures of plugins.

        Raises KeyError for an unknown kind, and pydantic's ValidationError where the parameters are wrong.
        """
        rule_type = self.kinds[kind]
        return rule_type(rule_type.params_type.model_validate(params, context={SIMILARITIES: self.similarities}))


class _Distribution(NamedTuple):
    """Where a plugin came from."""

    name: str
    version: str


def build_registry(plugins: PluginSettings | None = None, *, extra: Iterable[object] = ()) -> Registry:
    """Return a registry of the installed plugins that the settings allow, and of ``extra`` ones.

    Each call makes its own manager: nothing is global, so tests and tenants cannot meet in it.
    """
    allowed = plugins or PluginSettings()
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    for name in allowed.block:
        manager.set_blocked(name)
    distributions = _load_entry_points(manager, allowed)
    for plugin in extra:
        _register(manager, plugin, getattr(plugin, "__name__", type(plugin).__name__))
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(f"plugin {error.plugin!r}: {error}; see docs/plugins.md for the hooks there are") from None
    return _collect(manager, distributions)


def _load_entry_points(manager: pluggy.PluginManager, allowed: PluginSettings) -> dict[str, _Distribution]:
    found: dict[str, _Distribution] = {}
    for point, dist in sorted(_entry_points(), key=lambda pair: pair[0].name):
        refused = allowed.allow is not None and point.name not in allowed.allow
        # A distribution that is on the path twice (an editable install) is one plugin.
        if refused or manager.is_blocked(point.name) or (point.name in found and found[point.name].name == dist.name):
            continue
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginError(f'plugin "{point.name}" of {dist.name} cannot be imported: {error!r}') from error
        _register(manager, plugin, point.name)
        found[point.name] = dist
    missing = sorted(set(allowed.allow or ()) - set(found))
    if missing:
        raise PluginError(f"plugins.allow names what is not installed: {', '.join(missing)}")
    return found


def _entry_points() -> Iterator[tuple[metadata.EntryPoint, _Distribution]]:
    for dist in metadata.distributions():
        ours = [point for point in dist.entry_points if point.group == hookspecs.PROJECT]
        if ours:
            # Read once: the metadata holds a whole README, and each look at the name or the version parses it again.
            about = dist.metadata
            yield from ((point, _Distribution(about["Name"], about["Version"])) for point in ours)


def _register(manager: pluggy.PluginManager, plugin: object, name: str) -> None:
    try:
        manager.register(plugin, name=name)
    except ValueError:
        raise PluginError(f'two plugins are called "{name}"; rename one, or block it with plugins.block') from None
    except pluggy.PluginValidationError as error:
        raise PluginError(f'plugin "{name}": {error}') from None


def _collect(manager: pluggy.PluginManager, distributions: Mapping[str, _Distribution]) -> Registry:
    tables: dict[str, dict[str, Any]] = {what: {} for what in _TABLES}
    owners: dict[tuple[str, str], str] = {}
    infos = []
    # Sorted: entry-point order differs between machines, and nothing may depend on it.
    for name, plugin in sorted(manager.list_name_plugin()):
        if plugin is None:
            continue
        provides: dict[str, tuple[str, ...]] = {}
        for what, table in tables.items():
            named = _named(manager, plugin, name, what)
            for key, value in named.items():
                if key in table:
                    raise PluginError(
                        f'{what} "{key}" comes from two plugins, "{owners[what, key]}" and "{name}"; block one of them'
                    )
                if what == "decoders":
                    _check_decoder(value, key, name)
                table[key], owners[what, key] = value, name
            if named:
                provides[what] = tuple(sorted(named))
        if any(implementation.plugin is plugin for implementation in manager.hook.stream_guard_judge.get_hookimpls()):
            provides["judge"] = (name,)
        dist = distributions.get(name)
        infos.append(PluginInfo(name, dist.name if dist else "", dist.version if dist else "", provides))
    ordered = {what: dict(sorted(table.items())) for what, table in tables.items()}
    return Registry(
        manager,
        ordered["rules"],
        ordered["decoders"],
        ordered["sinks"],
        ordered["dialects"],
        ordered["diff_axes"],
        ordered["similarities"],
        ordered["policy_packs"],
        ordered["commands"],
        ordered["token_sources"],
        tuple(infos),
    )


def _check_decoder(kind: Any, key: str, plugin: str) -> None:
    """Raise PluginError for a decoder that lacks a method which the base class has."""
    lacking = [name for name in vars(Decoder) if not name.startswith("_") and not hasattr(kind, name)]
    if lacking:
        raise PluginError(
            f'plugin "{plugin}": the decoder "{key}" has no {", ".join(lacking)}; derive it from stream_guard.Decoder'
        )


def _named(manager: pluggy.PluginManager, plugin: object, name: str, what: str) -> dict[str, Any]:
    """What one plugin returns from one hook, by name."""
    caller = getattr(manager.hook, f"{hookspecs.PROJECT}_{what}")
    implementation = next((impl for impl in caller.get_hookimpls() if impl.plugin is plugin), None)
    if implementation is None:
        return {}
    try:
        returned = implementation.function()
    except Exception as error:
        raise PluginError(f'plugin "{name}" failed in {hookspecs.PROJECT}_{what}: {error!r}') from error
    if isinstance(returned, Mapping):
        return dict(returned)
    named: dict[str, Any] = {}
    for item in returned:
        key = getattr(item, "kind", None) or getattr(item, "name", None)
        if not key or key in named:
            raise PluginError(f'plugin "{name}": {item!r} needs a `kind` or `name` of its own')
        named[key] = item
    return named
