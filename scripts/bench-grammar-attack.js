/**
 * `node scripts/bench-grammar-attack.js [--requests 10]`: measures how long a key waits for structured answers, each
 * with its own schema, while other keys send a new slow-compiling grammar with every request. Fails if an answer takes
 * a second or more.
 */
import { startServer } from "./engine-process.js";

const MOST_MS = 1000;
const numRequests = Number(process.argv[process.argv.indexOf("--requests") + 1]) || 10;

/** Each grammar differs from all earlier ones. */
const ATTACKS = {
  "repetitions beyond the bound": (n) => `root ::= ((("a${n}"{1,1000}){1,1000}){1,1000})`,
  "seconds to compile": (n) => `root ::= ${"[a-z]{0,40} ".repeat(100)} "${n}"`,
  "more than anybody waits for": (n) => `root ::= ${"[a-z]* [^a]* ".repeat(500)} "${n}"`,
};
const ATTACKERS = {
  "no attacker": [],
  "one connection": ["x"],
  "two connections of a key": ["x", "x"],
  "two keys": ["x", "y"],
};

async function ask(url, key, structured, signal) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({
      messages: [{ role: "user", content: "hi" }],
      max_tokens: 20,
      structured_outputs: structured,
    }),
    signal,
  });
  await response.text();
  return response.status;
}

let number = 0;
let hasFailed = false;

async function run(url, attackName, attackersName) {
  const stop = new AbortController();
  const statuses = {};
  const attack = async (key) => {
    while (!stop.signal.aborted) {
      const status = await ask(url, key, { grammar: ATTACKS[attackName](++number) }, stop.signal).catch(() => "cut");
      statuses[status] = (statuses[status] ?? 0) + 1;
    }
  };
  const attacks = ATTACKERS[attackersName].map(attack);
  const times = [];
  for (let i = 0; i < numRequests; i++) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const schema = {
      type: "object",
      properties: { [`a${++number}`]: { type: "boolean" } },
      additionalProperties: false,
    };
    const startMs = performance.now();
    const status = await ask(url, "z", { json: schema });
    times.push(performance.now() - startMs);
    if (status !== 200) throw new Error(`expected an answer, got ${status}`);
  }
  stop.abort();
  await Promise.all(attacks);
  times.sort((a, b) => a - b);
  const [median, most] = [times[Math.floor(times.length / 2)], times.at(-1)];
  hasFailed ||= most >= MOST_MS;
  const figures = `${median.toFixed(0).padStart(9)}  ${most.toFixed(0).padStart(7)}${most >= MOST_MS ? "  OVER" : ""}`;
  console.log(
    `${attackName.padEnd(30)} ${attackersName.padEnd(26)} ${figures}   attackers got ${JSON.stringify(statuses)}`,
  );
}

console.log(`${"grammars that attackers send".padEnd(30)} ${"attackers".padEnd(26)} median ms  most ms`);
for (const attackName of Object.keys(ATTACKS)) {
  // Each attack starts with unused budgets.
  const { url, child } = await startServer("engine", "--api-key", "x,y,z", "--log-level", "error");
  try {
    await ask(url, "z", { choice: ["a"] });
    for (const attackersName of Object.keys(ATTACKERS)) await run(url, attackName, attackersName);
  } finally {
    child.kill();
  }
}
process.exitCode = hasFailed ? 1 : 0;
