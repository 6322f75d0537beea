/**
 * Sends one client's chats to several running OpenAI-compatible servers, alternating request by request: measures how
 * much sooner the others answer than the first, in total and from the first text to the last. Greedy, streamed; reports
 * how many answers differ.
 *
 *   node scripts/bench-chats.js --chats FILE --url plain=http://127.0.0.1:8000 --url drafts=http://127.0.0.1:8001
 *     [--family extract,code] [--count 16] [--rounds 5] [--max-tokens 256] [--json FILE]
 *
 * FILE: JSON lines of {"family", "messages"}; an assistant's message at the end is left out.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";

const { values: args } = parseArgs({
  options: {
    chats: { type: "string" },
    url: { type: "string", multiple: true },
    family: { type: "string" },
    count: { type: "string", default: "16" },
    rounds: { type: "string", default: "5" },
    "max-tokens": { type: "string", default: "256" },
    json: { type: "string" },
  },
});
if (args.chats === undefined || args.url === undefined)
  throw new Error("expected --chats FILE and --url name=http://… twice or more");
const servers = args.url.map((text) => {
  const [, name, url] = /^([\w.-]+)=(https?:.*)$/.exec(text) ?? [];
  if (url === undefined) throw new Error(`expected --url name=http://…, got ${text}`);
  return { name, url };
});

function readChats() {
  const families = new Map();
  for (const line of readFileSync(args.chats, "utf8").split("\n")) {
    if (line === "") continue;
    const { family, messages } = JSON.parse(line);
    const prompt = messages.at(-1).role === "assistant" ? messages.slice(0, -1) : messages;
    families.set(family, [...(families.get(family) ?? []), prompt]);
  }
  const wanted = args.family?.split(",") ?? [...families.keys()];
  return wanted.map((family) => ({ family, prompts: (families.get(family) ?? []).slice(0, Number(args.count)) }));
}

/** One streamed chat: milliseconds in total and from the first text on, the tokens of `usage`, and the text. */
async function ask(url, messages) {
  const startMs = performance.now();
  const body = {
    messages,
    temperature: 0,
    max_tokens: Number(args["max-tokens"]),
    stream: true,
    stream_options: { include_usage: true },
  };
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  let [firstMs, text, rest, numTokens] = [undefined, "", "", 0];
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    const events = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: {")) continue;
      const { choices, usage } = JSON.parse(event.slice(6));
      const piece = choices?.[0]?.delta?.content ?? "";
      if (piece !== "") firstMs ??= performance.now();
      text += piece;
      numTokens = usage?.completion_tokens ?? numTokens;
    }
  }
  const endMs = performance.now();
  return { wholeMs: endMs - startMs, decodeMs: endMs - (firstMs ?? endMs), numTokens, text };
}

const sum = (runs, key) => runs.reduce((total, run) => total + run[key], 0);
const results = [];
for (const { family, prompts } of readChats()) {
  for (const { url } of servers) for (const prompt of prompts.slice(0, 4)) await ask(url, prompt);
  const runs = servers.map(() => []);
  let numDifferent = 0;
  for (let round = 0; round < Number(args.rounds); round++) {
    for (const [index, prompt] of prompts.entries()) {
      const texts = new Set();
      for (let i = 0; i < servers.length; i++) {
        // The first server finds other caches than the last.
        const server = (i + round + index) % servers.length;
        const { text, ...run } = await ask(servers[server].url, prompt);
        runs[server].push({ prompt: index, ...run });
        texts.add(text);
      }
      if (texts.size > 1) numDifferent++;
    }
  }
  results.push({ family, numDifferent, runs: Object.fromEntries(servers.map(({ name }, i) => [name, runs[i]])) });
  const shown = servers.map(({ name }, i) => {
    const ratio = (key) => (sum(runs[0], key) / sum(runs[i], key)).toFixed(2);
    const perToken = ((1000 * sum(runs[i], "decodeMs")) / sum(runs[i], "numTokens")).toFixed(0);
    return `${name}: whole ${ratio("wholeMs")}, decoding ${ratio("decodeMs")} (${perToken} µs a token)`;
  });
  const tokens = (sum(runs[0], "numTokens") / runs[0].length).toFixed(0);
  console.log(
    `${family.padEnd(10)} ${tokens} tokens | ${shown.join(" | ")}${numDifferent === 0 ? "" : ` | ${numDifferent} ANSWERS DIFFER`}`,
  );
}
const machine = { cpu: cpus()[0].model, cores: cpus().length };
if (args.json !== undefined)
  writeFileSync(args.json, JSON.stringify({ machine, servers: servers.map(({ name }) => name), results }));
