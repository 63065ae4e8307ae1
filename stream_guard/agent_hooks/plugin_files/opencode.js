// Asks stream_guard before a tool runs, and tells it what came of it.
// OpenCode sets no deadline for a plugin, so this one has its own; what was not judged does not run.
import { readFile } from "node:fs/promises";

const setting = (name, otherwise) => process.env[`STREAM_GUARD_HOOK__${name}`] ?? otherwise;

async function ask(payload) {
  const headers = { "content-type": "application/json" };
  const file = setting("TOKEN_FILE", "");
  if (file) headers.authorization = `Bearer ${(await readFile(file, "ascii")).trim()}`;
  const answer = await fetch(`${setting("GATE", "http://127.0.0.1:8750")}/v1/hooks/opencode`, {
    method: "POST",
    headers,
    body: JSON.stringify(payload),
    signal: AbortSignal.timeout(1000 * Number(setting("TIMEOUT", "2"))),
  });
  if (!answer.ok) throw new Error(`the gate refused the question with ${answer.status}`);
  return answer.json();
}

export const StreamGuard = async () => ({
  "tool.execute.before": async (input, output) => {
    let said;
    try {
      said = await ask({ hook: "tool.execute.before", input, output: { args: output.args } });
    } catch (error) {
      if (setting("ON_ERROR", "closed") === "open") return;
      throw new Error(`Not run: stream_guard could not judge this call: ${error.message}`);
    }
    if (said.throws) throw new Error(said.throws);
  },
  "tool.execute.after": async (input, output) => {
    // The tool has run: a gate that is out changes nothing now.
    await ask({ hook: "tool.execute.after", input, output }).catch(() => {});
  },
});
