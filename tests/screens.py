"""The screens of the first hour with the demo's own events: ``python -m tests.screens`` writes them anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import processes
from tests.terminal import show

SCREENS = Path(__file__).parent / "golden" / "screens"


def play_demo(folder: Path) -> dict[str, str]:
    """Return the screens, by name: init, check and explain over sample sessions, and what else a beginner calls."""
    processes.run("demo", "--keep", "traces", cwd=folder)
    checked = ("check", "traces/events.jsonl", "--policy", "guard/policy.yaml")
    screens = {"init": show("init", "traces/events.jsonl", "--into", "guard", folder=folder).text}
    # The alerts; what check sums up below them is held by its own tests.
    screens["check"] = re.split(r"(?m)^\d+ records, ", show(*checked, folder=folder, progress=False).text)[0]
    listed = processes.run(*checked, "--format", "jsonl", cwd=folder, text=True)
    alert = json.loads(listed.stdout.splitlines()[0])
    explained = show("explain", alert["alert_id"], *checked[1:], folder=folder, progress=False)
    screens["explain"] = explained.text.replace(str(folder), "/home/you")
    screens["template"] = show("init", "--into", "sample", folder=folder).text
    screens["packs"] = show("packs", "list", folder=folder).text
    return screens


def main() -> None:
    """Write the screens; read the diff."""
    SCREENS.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        for name, text in play_demo(Path(folder)).items():
            (SCREENS / f"{name}.txt").write_text(text)
            print(f"wrote {name}.txt")


if __name__ == "__main__":
    main()
