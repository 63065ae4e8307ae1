// @ts-nocheck
// Asks stream_guard before a tool runs, and tells it what came of it.
// Amp documents no deadline for a handler, so this one has its own; what was not judged does not run.
import { readFile } from "node:fs/promises";

const setting = (name, otherwise) => process.env[`STREAM_GUARD_HOOK__${name}`] ?? otherwise;

async function ask(payload) {
  const headers = { "content-type": "application/json" };
  const file = setting("TOKEN_FILE", "");
  if (file) headers.authorization = `Bearer ${(await readFile(file, "ascii")).trim()}`;
  const answer = await fetch(`${setting("GATE", "http://127.0.0.1:8750")}/v1/hooks/amp`, {
    method: "POST",
    headers,
    body: JSON.stringify(payload),
    signal: AbortSignal.timeout(1000 * Number(setting("TIMEOUT", "2"))),
  });
  if (!answer.ok) throw new Error(`the gate refused the question with ${answer.status}`);
  return answer.json();
}

export default function (amp) {
  amp.on("tool.call", async ({ thread, toolUseID, tool, input }) => {
    try {
      return await ask({ event: "tool.call", thread: { id: thread?.id }, toolUseID, tool, input });
    } catch (error) {
      if (setting("ON_ERROR", "closed") === "open") return { action: "allow" };
      const message = `Not run: stream_guard could not judge this call: ${error.message}`;
      return { action: "reject-and-continue", message };
    }
  });
  amp.on("tool.result", async ({ thread, toolUseID, tool, input, status, output, error }) => {
    const told = { event: "tool.result", thread: { id: thread?.id }, toolUseID, tool, input, status, output, error };
    // The tool has run: a gate that is out changes nothing now.
    await ask(told).catch(() => {});
  });
}
