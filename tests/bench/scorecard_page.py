"""The scorecard as a page and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stream_guard.analysis.labels import DetectionShare

# What others report on the same or the nearest data, with where they say so. Other models, other splits, other metrics.
OTHERS: Final = (
    (
        "AgentDyn",
        "defences of agents against injections: the paper reports what is left of attacks and of the tasks",
        "arXiv 2602.03117",
    ),
    (
        "OpenAgentSafety",
        "of tasks in which they can, agents act unsafely in 51 % (Claude Sonnet 3.7) to 73 % (o3-mini); no detector",
        "arXiv 2507.06134v1",
    ),
    ("TraceSafe", "guard models and LLMs as judges on tool-call traces, by category", "arXiv 2604.07223"),
)

INTRODUCTION: Final = """# Scorecard

All policy packs over all recordings with labels that the benchmark finds, and the kinds that compare calls with what
was offered and given. Sets differ in what their label means: a pack that is for something else finds nothing there, and
that row stays in.

    make scorecard                                # what the folder STREAM_GUARD_DATA has
    python -m tests.bench.fetch FOLDER            # recordings from where they are public, at pinned commits

Shares stand with their 95 % intervals. The words of the packs were chosen with these recordings at hand, so expect
less on yours; `python -m tests.bench.crossed` leaves whole suites and goals out. Cost is of one run on a busy machine.

![Recall, and alarms on runs that went well](scorecard.svg)
"""


class Row(NamedTuple):
    """One pack, or one rule, on one set."""

    recordings: str
    by: str
    precision: DetectionShare
    recall: DetectionShare
    alarms: DetectionShare  # of the runs that went well
    microseconds: float | None  # an event, CPU time, for all packs together

    def as_json(self) -> dict[str, Any]:
        """Return the row as data."""
        shares = {name: [share.hits, share.of] for name, share in zip(self._fields[2:5], self[2:5], strict=True)}
        return {"recordings": self.recordings, "by": self.by, **shares, "microseconds": self.microseconds}


def page(rows: Sequence[Row], means: Mapping[str, str]) -> str:
    """Return the page, as Markdown."""
    return "\n".join([INTRODUCTION, *_tables(rows, means), *_others()]) + "\n"


def _tables(rows: Sequence[Row], means: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys(row.recordings for row in rows):
        mine = [row for row in rows if row.recordings == name]
        yield f"## {name}\n"
        yield f"{means.get(name, 'bad: one fault was planted; the unharmed twins went well')}.\n"
        yield "| by | precision | recall | alarms on runs that went well | CPU ms for 1,000 events |"
        yield "| --- | --- | --- | --- | --- |"
        for row in mine:
            cost = f"{row.microseconds:.0f}" if row.microseconds is not None else ""
            counts = f"{row.alarms.hits} of {row.alarms.of}: {row.alarms}" if row.alarms.of else "-"
            caught = f"{row.recall.hits} of {row.recall.of}: {row.recall}" if row.recall.of else "-"
            yield f"| {row.by} | {row.precision} | {caught} | {counts} | {cost} |"
        yield ""


def _others() -> Iterator[str]:
    yield "## What others report\n"
    yield "Other models, splits and metrics: no row here can be set against one above.\n"
    yield "| data | what is reported | source |"
    yield "| --- | --- | --- |"
    yield from (f"| {name} | {says} | {source} |" for name, says, source in OTHERS)


def plot(rows: Sequence[Row]) -> str:
    """Return a picture: for each set, recall of all packs together and their alarms, with intervals."""
    shown = [row for row in rows if row.by == "all packs" or row.recordings.startswith("tracesafe")]
    height = 28 * len(shown) + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="820" height="{height}" font-family="sans-serif">',
        '<text x="330" y="16" font-size="12" fill="#1b6ca8">recall</text>',
        '<text x="380" y="16" font-size="12" fill="#c7522a">alarms on runs that went well</text>',
    ]
    for percent in (0, 25, 50, 75, 100):
        x = 330 + 460 * percent / 100
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="24" y2="{height - 22}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.0f}" y="{height - 8}" font-size="11" text-anchor="middle">{percent} %</text>')
    for number, row in enumerate(shown):
        middle = 42 + 28 * number
        name = row.recordings if row.by == "all packs" else f"{row.recordings}: {_short(row.by)}"
        parts.append(f'<text x="310" y="{middle + 4}" font-size="12" text-anchor="end">{name}</text>')
        for share, colour, offset in ((row.recall, "#1b6ca8", -5), (row.alarms, "#c7522a", 5)):
            if share.interval is None or share.value is None:
                continue
            low, high = (330 + 460 * bound for bound in share.interval)
            across = middle + offset
            parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{across}" y2="{across}" stroke="{colour}"/>')
            parts.append(f'<circle cx="{330 + 460 * share.value:.1f}" cy="{across}" r="3" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _short(by: str) -> str:
    """Return a kind and its params in a few words."""
    return by.replace("checks: ", "").replace(": True", "").translate(str.maketrans("", "", "[]'"))
