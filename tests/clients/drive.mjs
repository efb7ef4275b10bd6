// Connects the official TypeScript SDK to a stdio server, makes calls one by one, prints what the client saw as one JSON object.
//
// Usage: drive.mjs VERSION MODE, with the plan on stdin; both are those of drive.py, but that a step is a plain call:
//     {"server": [PROGRAM, ARGUMENT...], "steps": [{"tool": NAME, "arguments": {...}}...],
//      "answers": [{"action": ..., "content": {...}?}...], "after_s": SECONDS?}
// VERSION is `v1` (1.17.5, which knows a handshake only, and no MODE) or `v2` (2.4.0); MODE is `auto` or `legacy`.
//
// The packages stand in .npm, made by `make deps`.

import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

// The longest a whole session takes; never waited for in a test that passes.
const PATIENCE_MS = 60_000;

const [version, mode] = process.argv.slice(2);
const plan = JSON.parse(await text(process.stdin));
const own = (path) => import(new URL(`../../.npm/node_modules/@modelcontextprotocol/${path}`, import.meta.url));
const questions = [];

async function answer(request) {
  questions.push({ message: request.params.message, schema: request.params.requestedSchema });
  await sleep((plan.after_s ?? 0) * 1000);
  return plan.answers.shift();
}

/** A client that is not yet connected, its transport's class, and what tells the revision once it is. */
async function make() {
  const name = { name: "drive", version: "1" };
  const capabilities = { elicitation: {} };
  if (version === "v2") {
    const [{ Client }, { StdioClientTransport }] = [await own("client/dist/index.mjs"), await own("client/dist/stdio.mjs")];
    const client = new Client(name, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler("elicitation/create", answer);
    return [client, StdioClientTransport, () => client.getNegotiatedProtocolVersion()];
  }
  const [{ Client }, { StdioClientTransport }, { ElicitRequestSchema }] = [
    await own("sdk/dist/esm/client/index.js"), await own("sdk/dist/esm/client/stdio.js"), await own("sdk/dist/esm/types.js"),
  ];
  const client = new Client(name, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, answer);
  let revision = null;
  class Transport extends StdioClientTransport {
    setProtocolVersion(agreed) {
      revision = agreed;
    }
  }
  return [client, Transport, () => revision];
}

async function call(client, step) {
  try {
    const result = await client.callTool({ name: step.tool, arguments: step.arguments });
    const outcome = result._meta?.["tidegate/outcome"];
    return { is_error: result.isError ?? false, text: result.content.map((block) => block.text), outcome };
  } catch (error) {
    if (error.code === undefined) throw error;
    return { error: { code: error.code, message: error.message }, outcome: error.data?.["tidegate/outcome"] };
  }
}

// A session that hangs is a failed one; the server ends with its stdin.
setTimeout(() => process.exit(1), PATIENCE_MS).unref();

const [client, Transport, revision] = await make();
const [command, ...args] = plan.server;
await client.connect(new Transport({ command, args }));
const steps = [];
for (const step of plan.steps) steps.push(await call(client, step));
const seen = { protocol_version: revision(), questions, steps };
await client.close();
console.log(JSON.stringify(seen));
