"""``python -m tests.bench.flink``: the benchmark by itself, with as many events as one says."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.bench.builds import ROOT
from tests.bench.flink import EVENTS, measure

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(ROOT / ".cache" / "bench-flink", Path(scratch), int(sys.argv[1]) if sys.argv[1:] else EVENTS)
    print(json.dumps(result, indent=1))
