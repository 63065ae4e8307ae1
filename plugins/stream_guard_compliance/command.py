"""``compliance``: what a system prompt asks for, as a policy and as a verdict on recorded traces or live sessions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from stream_guard import SettingsError, SourceError
from stream_guard.commands import (
    FINDINGS,
    INCONCLUSIVE,
    USAGE,
    ListFormat,
    RecordingReader,
    Reports,
    ReportTarget,
    SettingsFile,
    SourceFormat,
    load_plugins,
    print_text,
    report_target,
    require_extra,
    write_report,
)
from stream_guard.reports import ReportForm
from stream_guard_compliance.reading.catalogue import declarations

if TYPE_CHECKING:
    from stream_guard import Settings
    from stream_guard_compliance import ComplianceResult, Extraction
    from stream_guard_compliance.live import PromptWatch
    from stream_guard_compliance.results import LiveViolation


_PACKED: Final = (".gz", ".zst", ".parquet", ".avro", ".agentlog")

Prompt = Annotated[Path, typer.Argument(help="A file with the system prompt.", show_default=False)]
Tools = Annotated[list[str] | None, typer.Option("--tool", help="A tool the agent has; may be given many times.")]
ToolsFile = Annotated[
    Path | None, typer.Option("--tools", help="A JSON file with the agent's tools: names, or their definitions.")
]


def check(  # noqa: PLR0913, PLR0917  # as many as a user may say
    prompt: Prompt,
    traces: Annotated[
        list[str],
        typer.Argument(
            help="Files of events, a JSON list or JSON lines; recordings in any format, packed, or folders of them.",
            show_default=False,
        ),
    ],
    form: Annotated[ListFormat, typer.Option("--format", help="How to print the results.")] = ListFormat.TABLE,
    tool: Tools = None,
    tools_file: ToolsFile = None,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds the judge may take for one trace.")] = 60.0,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0 although not everything could be judged.")
    ] = False,  # a flag
    reports: Reports = None,
    source_format: Annotated[
        str | None, typer.Option("--from-format", help="The format of recordings, or auto; without it, as they look.")
    ] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say which rules of a prompt the traces break; exit 1 for violations, 4 when something stayed open."""
    import asyncio

    from stream_guard_compliance import check_compliance, extract
    from stream_guard_compliance.trace import read_trace

    settings, registry = load_plugins(settings_file)
    targets = _targets(reports)
    text, tools = _read(prompt), _tools(tool, tools_file)
    _say_cost(text, tools, settings)
    outcomes: Counter[str] = Counter()
    results = []
    judged = []
    seen: dict[str, None] = {}
    broken: Counter[str] = Counter()
    reader = RecordingReader(source_format or "auto", registry, settings)
    for name, events in _traces(traces, reader, always=source_format is not None):
        result = asyncio.run(
            check_compliance(text, events, timeout=timeout, tools=tools, settings=settings, registry=registry)
        )
        outcomes[result.verdict] += 1
        broken.update({violation.rule_id for violation in result.violations})
        judged.append(result)
        seen.update(dict.fromkeys(read_trace(events).tools))
        if form is ListFormat.TABLE:
            _print_result(name, result)
        results.append({"trace": name, "verdict": result.verdict, **msgspec.to_builtins(result)})
    if form is ListFormat.JSON:
        typer.echo(json.dumps(results, indent=2, ensure_ascii=False))
    elif len(results) > 1:
        typer.echo(f"{len(results)} sessions: {', '.join(f'{count} {word}' for word, count in outcomes.items())}")
        for rule, count in broken.most_common():
            typer.echo(f"  {rule} is violated in {count} of {len(results)} sessions")
    for line in reader.summary():
        typer.echo(f"not read: {line}", err=True)
    _write(targets, text, extract(text, tools, seen=seen), judged)
    if outcomes["violated"]:
        raise typer.Exit(FINDINGS)
    if (reader.unread or set(outcomes) != {"satisfied"}) and not allow_inconclusive:
        typer.echo("inconclusive: not everything could be judged; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)


def _say_cost(prompt: str, tools: list[Any], settings: Settings) -> None:
    """Say what a model that reads will cost, before it is asked."""
    if not (settings.compliance.propose and settings.judge.url):
        return
    from stream_guard_compliance import extract
    from stream_guard_compliance.check import estimate

    left = [rule.rule.description for rule in extract(prompt, tools).rules if not rule.compiled.rules]
    tokens, cost = estimate(left, list(declarations(tools)), settings.judge)
    typer.echo(f"{len(left)} open sentences go to {settings.judge.url}: about {tokens} tokens, ${cost:.4f}", err=True)


def extract_policy(
    prompt: Prompt,
    tool: Tools = None,
    tools_file: ToolsFile = None,
    previous: Annotated[
        Path | None,
        typer.Option(help="The policy of an earlier version, reviewed: what it decided about a sentence is kept."),
    ] = None,
    reports: Reports = None,
) -> None:
    """Write a policy to review: every sentence of a prompt, in order, as a rule, a question or not a rule."""
    from stream_guard_compliance import extract
    from stream_guard_compliance.review import changes_between, read_review, write_review

    targets = _targets(reports)
    text, tools = _read(prompt), _tools(tool, tools_file)
    decided = read_review(_read(previous), str(previous)) if previous is not None else None
    extraction = extract(text, tools)
    _write(targets, text, extraction, ())
    for line in changes_between(decided, extraction).lines() if decided is not None else ():
        typer.echo(line, err=True)
    concrete = [rule for rule in extraction.rules if rule.compiled.rules]
    left = [rule for rule in extraction.rules if not rule.compiled.rules]
    for rule in left:
        typer.echo(f"not in the policy: {rule.rule.description} ({rule.compiled.why})", err=True)
    for unparsed in extraction.unparsed:
        typer.echo(f"not read: {unparsed.sentence} ({unparsed.reason})", err=True)
    typer.echo(
        f"rules: {len(concrete)}, left to judgement: {len(left)}, not read: {len(extraction.unparsed)}", err=True
    )
    if not concrete:
        typer.echo("no rule of this prompt can be checked by a machine; there is no policy to write", err=True)
        raise typer.Exit(INCONCLUSIVE)
    typer.echo(write_review(extraction, list(declarations(tools)), decided), nl=False)


def _tools(names: list[str] | None, file: Path | None) -> list[Any]:
    """Return the tools that were named, and those of a file: a list of names or definitions, or an object with one."""
    if file is None:
        return list(names or ())
    try:
        found = json.loads(_read(file))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: not JSON ({error}); write a list of names, or of tool definitions") from None
    found = found.get("tools") if isinstance(found, dict) else found
    if not isinstance(found, list) or not declarations(one for one in found if isinstance(one, str | dict)):
        raise SettingsError(f"{file}: no tools in it; write a list of names, or of tool definitions")
    return [*(names or ()), *(one for one in found if isinstance(one, str | dict))]


def _targets(reports: list[str] | None) -> list[ReportTarget]:
    targets = [report_target(text) for text in reports or ()]
    if any(form is ReportForm.HTML for form, _ in targets):
        require_extra("analysis", "jinja2")
    return targets


def _write(
    targets: Sequence[ReportTarget], prompt: str, extraction: Extraction, results: Sequence[ComplianceResult]
) -> None:
    """Write the reports on the prompt and all sessions that were held against it."""
    if not targets:
        return
    from stream_guard_compliance.report.account import account_of, write_account

    account = account_of(prompt, extraction, results)
    for form, file in targets:
        write_report(file, write_account(account, form))


def _print_result(name: str, result: ComplianceResult) -> None:
    """Print what was not checked first: a score over the rest would read as more than it is."""
    from stream_guard.documents import printable

    sentences = {rule.rule_id: printable(rule.description) for rule in result.extracted_rules}
    partly = {rule.rule_id for rule in result.extracted_rules if rule.offset in result.covered}
    typer.echo(f"{name}: {result.verdict}")
    checked, left = len(result.covered), result.demanded - len(result.covered)
    typer.echo(f"  {result.demanded} sentences demand something: {checked} checked, {left} not checked")
    for verdict in sorted(result.verdicts, key=lambda verdict: verdict.rule_id in partly):
        if verdict.verdict == "inconclusive":
            how = "checked in part" if verdict.rule_id in partly else "not checked"
            typer.echo(f"  {how}: {sentences[verdict.rule_id]} ({printable(verdict.reason)})")
    for unparsed in result.unparsed:
        typer.echo(f"  not checked: {printable(unparsed.sentence)} ({unparsed.reason})")
    for violation in result.violations:
        at = "at the end" if violation.event_index is None else f"event {violation.event_index}"
        told = f"{violation.severity.upper()} {violation.rule_id} ({at}): {printable(violation.explanation)}"
        typer.echo(f"  {told}")
        typer.echo(f"    evidence: {printable(violation.evidence)}")
    for verdict in result.verdicts:
        if verdict.verdict == "satisfied":
            typer.echo(f"  kept: {sentences[verdict.rule_id]}")
    if result.score is not None:
        share = checked / result.demanded
        typer.echo(f"  in all, {result.score:.0%} is kept of what is checked, which is {share:.0%} of what is demanded")
    if result.tokens_used:
        typer.echo(f"  judge: {result.tokens_used} tokens, ${result.cost_usd:.4f}")


def _traces(targets: list[str], reader: RecordingReader, *, always: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yield each trace with its name; a recording holds one for each session.

    A file is read as the events that ``check_compliance`` takes, unless nothing in it is one: then, or ``always``, and
    where it is a folder, packed or a topic, as a recording.
    """
    for target in targets:
        events = None if always or _is_recording(target) else _own_events(Path(target))
        sessions: dict[str, list[Any]] = {}
        for event in reader.read(target) if events is None else events:
            session = event.get("session_id") if isinstance(event, dict) else getattr(event, "session_id", None)
            sessions.setdefault(session if isinstance(session, str) else "", []).append(event)
        for session, listed in (sessions or {"": []}).items():
            yield (f"{target}: {session}" if session else target), listed


def _is_recording(target: str) -> bool:
    return "://" in target or Path(target).is_dir() or target.endswith(_PACKED)


def _own_events(file: Path) -> list[Any] | None:
    """Return the events of a file, or None where it holds some and none of them can be read."""
    from stream_guard_compliance.trace import read_trace

    events = _events(file)
    return None if events and not read_trace(events).events else events


def _events(file: Path) -> list[Any]:
    text = _read(file)
    try:
        whole = json.loads(text)
    except RecursionError:
        raise SourceError(f"{file}: nested too deep to be a trace") from None
    except ValueError:
        return [_line(file, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if isinstance(whole, dict):
        inner = next((whole[key] for key in ("trace_events", "events", "messages") if key in whole), [whole])
        whole = inner
    if not isinstance(whole, list):
        raise SettingsError(f"{file}: a trace is a JSON list of events, or one event a line")
    return whole


def _line(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SettingsError(
            f"{file}:{number}: not JSON ({error}); a trace is a JSON list, or one event a line"
        ) from None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        typer.echo(f"{file}: cannot be read: {error}", err=True)
        raise typer.Exit(USAGE) from None


# ``compliance watch``: sessions held against the prompts that their own telemetry carries.


def watch(
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders, topics, or - for standard input.", show_default=False)
    ],
    from_format: SourceFormat = "auto",
    form: Annotated[ListFormat, typer.Option("--format", help="How to print violations.")] = ListFormat.TABLE,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", help="A tool the agents have, beside declared ones.")
    ] = None,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Exit 0 although not everything could be judged.")
    ] = False,  # a flag
    settings_file: SettingsFile = None,
) -> None:
    """Hold sessions against the prompts that their own turns carry; exit 1 for violations, 4 when some stayed open."""
    from stream_guard_compliance.live import PromptWatch

    settings, registry = load_plugins(settings_file)
    reader = RecordingReader(from_format, registry, settings)
    prompts = PromptWatch(registry, tool or ())
    found = False
    for violation in _violations(prompts, reader, sources):
        found = True
        _print(violation, form)
    _say_what_was_read(prompts, reader)
    if found:
        raise typer.Exit(FINDINGS)
    judged = prompts.versions and not (prompts.without_prompt or prompts.left_out or reader.unread)
    if not judged and not allow_inconclusive:
        raise typer.Exit(INCONCLUSIVE)


def _violations(prompts: PromptWatch, reader: RecordingReader, sources: list[str]) -> Iterator[LiveViolation]:
    """Yield what sessions break, as soon as the event is there."""
    for source in sources:
        for event in reader.read(source):
            yield from prompts.feed(event)
    yield from prompts.finish()


def _say_what_was_read(prompts: PromptWatch, reader: RecordingReader) -> None:
    """Say on standard error how much of each prompt is checked, and what nothing was judged of."""
    for line in reader.summary():
        typer.echo(f"not read: {line}", err=True)
    for version in prompts.versions:
        found = version.extraction
        checked = sum(bool(rule.compiled.rules) for rule in found.rules)
        left = f"left to judgement: {len(found.rules) - checked}, not read: {len(found.unparsed)}"
        typer.echo(f"prompt {version.digest[:16]}: rules: {checked}, {left}", err=True)
    if prompts.without_prompt:
        typer.echo(f"sessions without a prompt: {len(prompts.without_prompt)}; not all of them was judged", err=True)
    if prompts.left_out:
        typer.echo(f"turns with a prompt beyond the first thousand versions: {prompts.left_out}", err=True)


def _print(violation: LiveViolation, form: ListFormat) -> None:
    from stream_guard.documents import printable

    if form is ListFormat.JSON:
        print_text(json.dumps(msgspec.to_builtins(violation), ensure_ascii=False))
    else:
        place = f"{violation.session_id} {violation.event_id} {violation.rule_id}"
        print_text(f"{violation.severity.upper()} {printable(place)}: {printable(violation.explanation)}")
