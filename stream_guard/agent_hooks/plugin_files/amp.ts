// Asks stream_guard before a tool runs, and tells it what came of it.
// Amp documents no deadline for a handler, so this one has its own; what was not judged does not run.
import { readFile } from "node:fs/promises";

const setting = (name: string, otherwise: string): string => process.env[`STREAM_GUARD_HOOK__${name}`] ?? otherwise;

async function ask(payload: object): Promise<any> {
  const headers: Record<string, string> = { "content-type": "application/json" };
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

export default function (amp: any) {
  amp.on("tool.call", async (event: any) => {
    const { thread, toolUseID, tool, input } = event;
    try {
      return await ask({ event: "tool.call", thread: { id: thread?.id }, toolUseID, tool, input });
    } catch (error: any) {
      if (setting("ON_ERROR", "closed") === "open") return { action: "allow" };
      const message = `Not run: stream_guard could not judge this call: ${error.message}`;
      return { action: "reject-and-continue", message };
    }
  });
  amp.on("tool.result", async (event: any) => {
    const { thread, toolUseID, tool, input, status, output, error } = event;
    const told = { event: "tool.result", thread: { id: thread?.id }, toolUseID, tool, input, status, output, error };
    // The tool has run: a gate that is out changes nothing now.
    await ask(told).catch(() => {});
  });
}
