/**
 * Streaming throughput of an OpenAI-compatible server: N concurrent clients, each with one streamed completion per
 * round; medians of several rounds. With two URLs the rounds alternate (ABAB), so that drift of the machine's speed
 * affects both alike.
 *
 *   node scripts/bench-stream.js --url millrace=http://127.0.0.1:8000 [--url other=http://127.0.0.1:8080]
 *     [--clients 32] [--max-tokens 128] [--rounds 7] [--json FILE]
 */
import { writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { cpus } from "node:os";
import { parseArgs } from "node:util";

const { values: args } = parseArgs({
  options: {
    url: { type: "string", multiple: true },
    clients: { type: "string", default: "32" },
    "max-tokens": { type: "string", default: "128" },
    rounds: { type: "string", default: "7" },
    prompt: { type: "string", default: "Once upon a time" },
    json: { type: "string" },
  },
});
const servers = (args.url ?? ["millrace=http://127.0.0.1:8000"]).map((text) => {
  const [, name, url] = /^(?:(\w[\w.-]*)=)?(https?:.*)$/.exec(text) ?? [];
  if (url === undefined) throw new Error(`expected --url [name=]http://…, got ${text}`);
  return { name: name ?? url, url };
});
const numClients = Number(args.clients);
const maxTokens = Number(args["max-tokens"]);
const agent = new Agent({ keepAlive: true, maxSockets: numClients });

/** One streamed completion: the times of its first and last chunk, and the tokens of `usage`. */
function stream(url, seed) {
  const body = JSON.stringify({
    prompt: args.prompt,
    max_tokens: maxTokens,
    temperature: 1,
    seed,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
  });
  return new Promise((resolve, reject) => {
    const startMs = performance.now();
    let firstMs = 0;
    let tail = "";
    const sent = request(`${url}/v1/completions`, {
      agent,
      method: "POST",
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    });
    sent.on("error", reject).on("response", (response) => {
      response.setEncoding("utf8");
      response.on("data", (chunk) => {
        if (firstMs === 0) firstMs = performance.now();
        tail = (tail + chunk).slice(-2000);
      });
      response.on("end", () => {
        const usage = /"completion_tokens":\s*(\d+)/.exec(tail);
        if (response.statusCode !== 200 || usage === null) reject(new Error(`status ${response.statusCode}: ${tail}`));
        else resolve({ startMs, firstMs, endMs: performance.now(), numTokens: Number(usage[1]) });
      });
    });
    sent.end(body);
  });
}

async function round(url, index) {
  const results = await Promise.all(Array.from({ length: numClients }, (_, i) => stream(url, index * numClients + i)));
  const startMs = Math.min(...results.map((r) => r.startMs));
  const endMs = Math.max(...results.map((r) => r.endMs));
  const numTokens = results.reduce((sum, r) => sum + r.numTokens, 0);
  return {
    tokensPerSecond: (1000 * numTokens) / (endMs - startMs),
    ttftMs: median(results.map((r) => r.firstMs - r.startMs)),
    tpotMs: median(results.map((r) => (r.endMs - r.firstMs) / Math.max(1, r.numTokens - 1))),
  };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const rounds = Object.fromEntries(servers.map(({ name }) => [name, []]));
for (let index = 0; index <= Number(args.rounds); index++) {
  for (const { name, url } of servers) {
    const measured = await round(url, index);
    // Round 0 warms up.
    if (index > 0) rounds[name].push(measured);
    process.stderr.write(`round ${index} ${name}: ${measured.tokensPerSecond.toFixed(0)} tokens/s\n`);
  }
}
const summary = Object.entries(rounds).map(([server, measured]) => ({
  server,
  tokensPerSecond: Math.round(median(measured.map((m) => m.tokensPerSecond))),
  minTokensPerSecond: Math.round(Math.min(...measured.map((m) => m.tokensPerSecond))),
  ttftMs: Number(median(measured.map((m) => m.ttftMs)).toFixed(2)),
  tpotMs: Number(median(measured.map((m) => m.tpotMs)).toFixed(3)),
}));
console.table(summary);
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version };
const report = { machine, numClients, maxTokens, summary, rounds };
if (args.json !== undefined) writeFileSync(args.json, `${JSON.stringify(report, null, 1)}\n`);
agent.destroy();
