"""Markdown tables, and the ones that are made from settings, commands, policies and a scrape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Flag
from typing import Any
from urllib.request import urlopen

import typer
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, SecretStr

from stream_guard.cli.app import app
from stream_guard.cli.demo import write_samples
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.settings import DELIMITER, PREFIX, DeliverySettings, RouteSettings, Settings


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as GitHub renders it."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """Return a text that cannot end its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(value: Any) -> str:
    """Return a value as it is written in a policy or on the command line."""
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`"


def metrics_table(registry: Registry) -> str:
    """Return every metric of a run over sample sessions, as Prometheus gets it from /metrics."""
    families = sorted(_scrape(registry), key=lambda family: family.name)
    rows = [
        (code(_full_name(family)), family.type, cell(family.documentation), ", ".join(map(code, _labels(family))))
        for family in families
        if not family.name.endswith("_created")  # the client's own: when a histogram began
    ]
    return table(("metric", "type", "what it counts", "labels"), rows)


def _scrape(registry: Registry) -> list[Metric]:
    with TemporaryDirectory() as folder:
        events, policy = write_samples(Path(folder), 8)
        with events.open("a") as file:
            file.write("not JSON\n")  # so that the metrics about bad records have their labels
        alerts = str(Path(folder, "alerts.jsonl"))
        options = RunOptions(
            source=str(events), policy=load_policy(policy, registry), alerts=[f"jsonl:{alerts}"], serve=True
        )
        # A route, so that the metrics about the outbox have their labels.
        route = RouteSettings(to=SecretStr(f"jsonl:{alerts}.routed"))
        delivery = DeliverySettings(outbox=Path(folder, "outbox.db"), routes={"routed": route})
        with Assembly(Settings(delivery=delivery), registry) as assembly:
            opened = open_run(options, assembly, Flag())
            opened.runner.run()
            with urlopen(f"{opened.url}/metrics") as answer:
                return list(text_string_to_metric_families(answer.read().decode()))


def _full_name(family: Metric) -> str:
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return family.name if family.name.endswith(suffix) else f"{family.name}{suffix}"


def _labels(family: Metric) -> list[str]:
    names = dict.fromkeys(name for sample in family.samples for name in sample.labels)
    return [name for name in names if name != "le"]  # of the histogram's own making


def settings_table() -> str:
    """Return every setting, its default, and the variable that sets it."""
    rows = []
    for section, described in Settings.model_fields.items():
        group = described.annotation
        if not (isinstance(group, type) and issubclass(group, BaseModel)):
            raise TypeError(f"{section} is no section of settings")
        for name, field in group.model_fields.items():
            variable = f"{PREFIX}{section}{DELIMITER}{name}".upper()
            rows.append(
                (f"`{section}.{name}`", code(_shown(field.default)), f"`{variable}`", cell(field.description or ""))
            )
    return table(("setting", "default", "environment variable", "meaning"), rows)


def _shown(default: Any) -> Any:
    if default is None:
        return "null"
    if default in ("", ()):
        return "[]" if default == () else '""'
    return f"{default:g}" if isinstance(default, float) else default


def options_table(command: str) -> str:
    """Return the arguments and options of a command, such as ``contract run``, from the command itself."""
    found: Any = typer.main.get_command(app)
    for word in command.split():
        found.list_commands(None)  # brings the commands of plugins in
        found = found.commands[word]
    rows = []
    for parameter in found.load().params:
        if parameter.name == "help":
            continue
        is_option = parameter.param_type_name == "option"
        names = [*parameter.opts, *parameter.secondary_opts] if is_option else [str(parameter.name).upper()]
        default = "" if parameter.required or parameter.default is None else code(_word(parameter.default))
        rows.append((", ".join(map(code, names)), default, cell(getattr(parameter, "help", None) or "")))
    return table(("argument or option", "default", "meaning"), rows)


def _word(default: Any) -> Any:
    return getattr(default, "value", default)


def fields_table(form: type[BaseModel]) -> str:
    """Return the keys of a part of a policy."""
    rows = []
    for name, field in form.model_fields.items():
        written = field.alias if isinstance(field.alias, str) else name
        default = "needed" if field.is_required() else "" if field.default is None else code(_value(field.default))
        rows.append((code(written), default, cell(field.description or "")))
    return table(("key", "default", "meaning"), rows)


def _value(default: Any) -> Any:
    if isinstance(default, BaseModel):
        return "{}"
    if isinstance(default, list):
        return f"[{', '.join(map(str, default))}]"
    if isinstance(default, str):
        return default or '""'
    return f"{default:g}" if isinstance(default, float) else default
