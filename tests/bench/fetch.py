"""Get recordings for the scorecard from where they are public, each at a pinned commit.

    python -m tests.bench.fetch FOLDER [NAME ...]

Writes them in the form that the benchmarks read, below FOLDER. Their licences are their authors'; read them there.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.request import urlopen

Files: TypeAlias = Iterator[tuple[PurePosixPath, bytes]]
Records: TypeAlias = Iterator[tuple[str, Any, dict[str, Any]]]  # the file it belongs to, the record, its label

_ARCHIVE: Final = "https://codeload.github.com/{repository}/tar.gz/{commit}"
_LARGEST: Final = 4 * 2**30  # bytes of an archive; more is no recording of these


class PublicSet(NamedTuple):
    """Recordings in a repository: which of its files, and how they become records with labels."""

    repository: str
    commit: str
    wants: Callable[[PurePosixPath], bool]
    read: Callable[[PurePosixPath, Any], Records]


def _hintbench(_path: PurePosixPath, runs: Any) -> Records:
    for run in runs:
        yield "trajectories", run, {"risky": run["is_risky"]}


def _tau(_path: PurePosixPath, runs: Any) -> Records:
    for run in runs:
        yield "airline_gpt-4o", run, {"fail": run["reward"] == 0}


def _agentdyn(path: PurePosixPath, run: Any) -> Records:
    attack = run["attack_type"]
    success = bool(run["security"]) and attack is not None
    label = {
        "suite": run["suite_name"],
        "user_task": run["user_task_id"],
        "injection_task": run["injection_task_id"],
        "attack": attack,
        "attack_success": success,
        "attack_attempted": success,  # what was tried and refused is not marked there
        "attempt_msg_index": None,
        "path": str(path),
    }
    yield "runs", run, label


def _mini_swe(_path: PurePosixPath, run: Any) -> Records:
    yield "trajectories", run, {"benign": True}


SETS: Final[Mapping[str, PublicSet]] = {
    "hintbench": PublicSet(
        "Jiacheng-31/HINTBench", "729bebe7", lambda path: path.name == "hintbench_val.json", _hintbench
    ),
    "tau_bench": PublicSet(
        "sierra-research/tau-bench", "59a200c6", lambda path: path.name == "gpt-4o-airline.json", _tau
    ),
    "agentdyn": PublicSet(
        "SaFo-Lab/AgentDyn",
        "5353cf7615b135cace8d07c8f12dac53a16b6db3",
        lambda path: path.parts[:1] == ("runs",) and path.suffix == ".json",
        _agentdyn,
    ),
    "mini_swe_agent": PublicSet(
        "gruckion/mini-swe-agent",
        "d12a71af",
        lambda path: "trajs" in path.parts and path.suffix == ".json",
        _mini_swe,
    ),
}
PAIRS: Final = ("yenshan0530/TraceSafe", "30db8d3d")  # lines that are taken as they are


def unpack(archive: bytes) -> Files:
    """Yield the plain files of an archive, with their paths below its first folder; nothing is written to the disk."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isfile() else None
            if content is not None:
                yield PurePosixPath(*PurePosixPath(member.name).parts[1:]), content.read()


def write(name: str, one: PublicSet, files: Files, folder: Path) -> int:
    """Write the records of a set and their labels; return how many there are."""
    records: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for path, content in files:
        if one.wants(path):
            for target, record, label in one.read(path, json.loads(content)):
                records.setdefault(target, []).append((record, label))
    for target, rows in records.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        with gzip.open(place / f"{target}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(record) + "\n" for record, _ in rows)
        labels = "labels.jsonl" if len(records) == 1 and name != "tau_bench" else f"{target}.labels.jsonl"
        (place / labels).write_text("".join(json.dumps(label) + "\n" for _, label in rows), encoding="utf-8")
    return sum(map(len, records.values()))


def write_pairs(files: Files, folder: Path) -> int:
    """Write the pairs of traces, packed."""
    count = 0
    for path, content in files:
        if path.name.startswith("golden_") and path.suffix == ".jsonl":
            (folder / "tracesafe").mkdir(parents=True, exist_ok=True)
            target = folder / "tracesafe" / f"{path.stem.removeprefix('golden_')}.jsonl.gz"
            target.write_bytes(gzip.compress(content))
            count += content.count(b"\n")
    return count


def _download(repository: str, commit: str) -> Files:
    with urlopen(_ARCHIVE.format(repository=repository, commit=commit)) as answer:
        content: bytes = answer.read(_LARGEST)
    return unpack(content)


def main(arguments: Sequence[str]) -> int:
    """Get what is named, or all."""
    if not arguments:
        print("say where to: python -m tests.bench.fetch FOLDER [NAME ...]", file=sys.stderr)
        return 2
    folder, names = Path(arguments[0]), arguments[1:] or [*SETS, "tracesafe"]
    unknown = [name for name in names if name not in {*SETS, "tracesafe"}]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join([*SETS, 'tracesafe'])}", file=sys.stderr)
        return 2
    for name in names:
        if name == "tracesafe":
            count = write_pairs(_download(*PAIRS), folder)
        else:
            count = write(name, SETS[name], _download(SETS[name].repository, SETS[name].commit), folder)
        print(f"{name}: {count} records")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
