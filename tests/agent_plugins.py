"""The plugins of coding agents in a real JavaScript engine: handlers are given what the agent gives them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from stream_guard import agent_hooks

FOLDER: Final = Path(agent_hooks.__file__).parent / "plugin_files"
NODE: Final = shutil.which("node")
_HANDLERS: Final = {
    "opencode": """
const hooks = await (await import(plugin)).StreamGuard();
const handle = (step) => hooks[step.hook]?.(step.input, step.output);
""",
    "amp": """
const hooks = {};
(await import(plugin)).default({on: (event, handler) => { hooks[event] = handler; }});
const handle = ({event, ...given}) => hooks[event]?.(given);
""",
}
_PROGRAM: Final = """
import {{ readFileSync }} from "node:fs";
const plugin = "data:text/javascript;base64," + readFileSync({file}).toString("base64");
{handlers}
const said = [];
for (const step of JSON.parse(readFileSync(0, "utf8"))) {{
  const threw = (error) => ({{ throws: error.message }});
  said.push((await Promise.resolve(handle(step)).catch(threw)) ?? null);
}}
console.log(JSON.stringify(said));
"""


def play(agent: str, gate: str, steps: list[dict[str, Any]], **settings: str) -> list[Any]:
    """Return what each handler returned or threw."""
    file = next(FOLDER.glob(f"{agent}.*"))
    program = _PROGRAM.format(file=json.dumps(str(file)), handlers=_HANDLERS[agent])
    done = subprocess.run(
        [NODE or "node", "--input-type=module", "-e", program],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        check=True,
        env={"STREAM_GUARD_HOOK__GATE": gate, "STREAM_GUARD_HOOK__TIMEOUT": "60", **settings},
    )
    said: list[Any] = json.loads(done.stdout)
    return said
