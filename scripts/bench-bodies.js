/**
 * `node scripts/bench-bodies.js [--rounds 3]`: sends hostile bodies of up to 8 MiB to an engine and to a gateway before
 * it. Prints the CPU time of each one's main thread, for which all other requests wait, and fails beyond 50 ms. Linux
 * only: the kernel counts that thread's time.
 */
import { readFileSync } from "node:fs";
import { startServer } from "./engine-process.js";

const MOST_MS = 50;
const MAX_BYTES = 8 * 1024 * 1024;
const rounds = Number(process.argv[process.argv.indexOf("--rounds") + 1]) || 3;

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const RESPONSES = "/v1/responses";
const MESSAGES = "/v1/messages";
const EMBEDDINGS = "/v1/embeddings";

const hi = '"messages":[{"role":"user","content":"hi"}],"max_tokens":1';
const many = (piece, separator = ",", room = 1000) =>
  Array(Math.floor((MAX_BYTES - room) / (piece.length + separator.length)))
    .fill(piece)
    .join(separator);
const numbered = (count, textOf) => Array.from({ length: count }, (_, i) => textOf(i)).join(",");
const json = (schema) => `{${hi},"structured_outputs":{"json":${schema}}}`;
const long = (character, bytes = MAX_BYTES - 1000) =>
  character.repeat(Math.floor(bytes / Buffer.byteLength(character)));

/** Letters that are the same in every run. */
let state = 1;
const random = (below) => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
  return (state >>> 8) % below;
};
const randomLetters = (length) => Array.from({ length }, () => String.fromCharCode(97 + random(26))).join("");
const randomCjk = (length) => Array.from({ length }, () => String.fromCharCode(0x4e00 + random(20_000))).join("");
const randomWords = (length) => {
  const words = [];
  for (let left = length; left > 0; left -= words.at(-1).length + 1) words.push(randomLetters(3 + random(8)));
  return words.join(" ").slice(0, length);
};

/** [name, path, body] */
const BODIES = [
  // The bodies that revealed the defect.
  [
    "4,900 false properties of 1,000 characters",
    CHAT,
    () =>
      json(`{"additionalProperties":true,"properties":{${numbered(4900, (i) => `"${i}${"x".repeat(990)}":false`)}}}`),
  ],
  [
    "2,400 long CJK names, open object",
    CHAT,
    () =>
      json(`{"additionalProperties":true,"properties":{${numbered(2400, (i) => `"${i}${"日".repeat(990)}":true`)}}}`),
  ],
  [
    "choice of 1,024 CJK strings",
    CHAT,
    () => `{${hi},"structured_outputs":{"choice":[${numbered(1024, (i) => `"${i}${"日".repeat(2500)}"`)}]}}`,
  ],
  ["enum of 1.1 M integers", CHAT, () => json(`{"enum":[${numbered(1_100_000, String)}]}`)],
  ["enum of 3.9 M equal values", CHAT, () => json(`{"enum":[${many("1")}]}`)],
  [
    "regex of 40 KB of alternatives",
    CHAT,
    () => `{${hi},"structured_outputs":{"regex":"${Array(20_000).fill("a").join("|")}"}}`,
  ],
  // Grammars.
  ["regex of 64 KB in groups", CHAT, () => `{${hi},"structured_outputs":{"regex":"${"(?:ab)".repeat(10_000)}"}}`],
  [
    "repetitions of repetitions",
    CHAT,
    () => `{${hi},"structured_outputs":{"grammar":"root ::= (((\\"a7\\"{1,1000}){1,1000}){1,1000})"}}`,
  ],
  ["a schema of 8 MiB as text", CHAT, () => json(`"${many('{\\"a\\":1}')}"`)],
  ["a schema with a description of 8 MiB", CHAT, () => json(`{"description":"${long("x")}"}`)],
  [
    "128 tools with 8 MiB of schemas",
    CHAT,
    () =>
      `{${hi},"tool_choice":"required","tools":[${numbered(128, (i) => `{"type":"function","function":{"name":"f${i}","parameters":{"type":"object","properties":{${numbered(60, (j) => `"p${j}${"x".repeat(900)}":{"type":"string"}`)}}}}}`)}]}`,
  ],
  [
    "128 tools of 30 properties",
    CHAT,
    () =>
      `{${hi},"tools":[${numbered(128, (i) => `{"type":"function","function":{"name":"f${i}","strict":true,"parameters":{"type":"object","properties":{${numbered(30, (j) => `"p${j}":{"type":"string"}`)}}}}}`)}]}`,
  ],
  // JSON.
  ["empty objects as messages", CHAT, () => `{"messages":[${many("{}")}]}`],
  ["empty objects, as many as are parsed", CHAT, () => `{"messages":[${numbered(16_000, () => "{}")}]}`],
  ["empty lists", CHAT, () => `{"messages":[${many("[]")}]}`],
  ["lists inside lists", CHAT, () => `{"messages":${long("[")}`],
  ["objects of ever other names", CHAT, () => `{"messages":[${numbered(600_000, (i) => `{"k${i}":1}`)}]}`],
  ["an object of 700,000 names", CHAT, () => `{${hi},"logit_bias":{${numbered(700_000, (i) => `"k${i}":1`)}}}`],
  ["an object of 16,000 names", CHAT, () => `{${hi},"logit_bias":{${numbered(16_000, (i) => `"k${i}":1`)}}}`],
  ["16,000 unknown fields", CHAT, () => `{${hi},${numbered(16_000, (i) => `"k${i}":1`)}}`],
  ["one field over and over", CHAT, () => `{${many('"n":1')}}`],
  ["a number of 8 MiB", CHAT, () => `{${hi},"seed":${long("1")}}`],
  ["numbers of 400 digits", CHAT, () => `{${hi},"stop_token_ids":[${many("1".repeat(400))}]}`],
  ["fractions", EMBEDDINGS, () => `{"input":[${many("0.1234567")}]}`],
  ["blanks", CHAT, () => `{${hi}${long(" ")}}`],
  [
    "bytes that are not UTF-8",
    CHAT,
    () => Buffer.concat([Buffer.from(`{${hi},"user":"`), Buffer.alloc(MAX_BYTES - 1000, 0xff), Buffer.from('"}')]),
  ],
  ["stop strings without end", CHAT, () => `{${hi},"stop":[${many('"a"')}]}`],
  // Prompts.
  ["a message of 8 MiB", CHAT, () => `{"messages":[{"role":"user","content":"${long("the river ")}"}]}`],
  ["a message of CJK", CHAT, () => `{"messages":[{"role":"user","content":"${long("日")}"}]}`],
  ["a message of escapes", CHAT, () => `{"messages":[{"role":"user","content":"${long("\\n")}"}]}`],
  ["a message of escaped characters", CHAT, () => `{"messages":[{"role":"user","content":"${long("\\u00e9")}"}]}`],
  [
    "two fields named model, 8 MiB",
    CHAT,
    () => `{"model":"mill-base","mod\\u0065l":"mill-base","messages":[{"role":"user","content":"${long("ab ")}"}]}`,
  ],
  [
    "6,000 messages",
    CHAT,
    () =>
      `{"messages":[${numbered(6000, (i) => `{"role":"${i % 2 ? "assistant" : "user"}","content":"${"a ".repeat(500)}"}`)}]}`,
  ],
  [
    "1,900 short messages",
    CHAT,
    () =>
      `{"max_tokens":1,"messages":[${numbered(1900, (i) => `{"role":"${i % 2 ? "assistant" : "user"}","content":"a"}`)}]}`,
  ],
  ["a prompt of 8 MiB", COMPLETIONS, () => `{"prompt":"${long("ab ")}"}`],
  ["a prompt of 1.4 M ids", COMPLETIONS, () => `{"prompt":[${many("12345")}]}`],
  ["a prompt of 4 M ids", COMPLETIONS, () => `{"prompt":[${many("1")}]}`],
  [
    "100 prompts of ids",
    COMPLETIONS,
    () => `{"max_tokens":1,"prompt":[${numbered(100, () => `[${numbered(10_000, () => "1234")}]`)}]}`,
  ],
  ["two million prompts", COMPLETIONS, () => `{"prompt":[${many('"a"')}]}`],
  ["a million lists of one id", COMPLETIONS, () => `{"prompt":[${many("[1]")}]}`],
  ["inputs to embed", EMBEDDINGS, () => `{"input":[${numbered(2000, () => `"${"a b ".repeat(900)}"`)}]}`],
  ["ids to embed", EMBEDDINGS, () => `{"input":[${many("1234")}]}`],
  ["a response's items", RESPONSES, () => `{"input":[${many('{"role":"user","content":"a"}')}]}`],
  [
    "a response's items, as many as are parsed",
    RESPONSES,
    () => `{"input":[${numbered(6000, () => '{"role":"user","content":"a"}')}]}`,
  ],
  ["a response's input of 8 MiB", RESPONSES, () => `{"input":"${long("ab ")}"}`],
  [
    "Anthropic's blocks",
    MESSAGES,
    () => `{"max_tokens":1,"messages":[{"role":"user","content":[${many('{"type":"text","text":"a"}')}]}]}`,
  ],
  [
    "Anthropic's system of 8 MiB",
    MESSAGES,
    () => `{"max_tokens":1,"system":"${long("ab ")}","messages":[{"role":"user","content":"a"}]}`,
  ],
  [
    "tokens to count, 8 MiB",
    `${MESSAGES}/count_tokens`,
    () => `{"messages":[{"role":"user","content":"${long("日本 ")}"}]}`,
  ],
  ["random words to tokenize, 1 MB", "/tokenize", () => `{"prompt":"${randomWords(1024 * 1024)}"}`],
  ["one word of 1 MB to tokenize", "/tokenize", () => `{"prompt":"${randomLetters(1024 * 1024)}"}`],
  ["random characters to tokenize, 1 Mi", "/tokenize", () => `{"prompt":"${randomCjk(1024 * 1024)}"}`],
  ["a prompt of random words", COMPLETIONS, () => `{"max_tokens":1,"prompt":"${randomWords(60_000)}"}`],
  [
    "a message of random words",
    CHAT,
    () => `{"max_tokens":1,"messages":[{"role":"user","content":"${randomWords(60_000)}"}]}`,
  ],
  [
    "100 prompts of random words",
    COMPLETIONS,
    () => `{"max_tokens":1,"prompt":[${numbered(100, () => `"${randomWords(16_000)}"`)}]}`,
  ],
  [
    "256 KB of random words, cut to their end",
    CHAT,
    () =>
      `{"max_tokens":1,"truncate_prompt_tokens":8,"messages":[{"role":"user","content":"${randomWords(250_000)}"}]}`,
  ],
  [
    "a conversation to be shortened",
    RESPONSES,
    () =>
      `{"truncation":"auto","max_output_tokens":1,"input":[${numbered(400, (i) => `{"role":"${i % 2 ? "assistant" : "user"}","content":"${randomWords(400)}"}`)}]}`,
  ],
  ["lists of ids as a response's input", RESPONSES, () => `{"input":[[${many("1")}]]}`],
  ["a prompt that responses do not have", RESPONSES, () => `{"input":"a","prompt":[${many("1")}]}`],
  ["tokens that completions do not have", COMPLETIONS, () => `{"prompt":"a","tokens":[${many("1")}]}`],
  ["fractions as ids", COMPLETIONS, () => `{"prompt":[${many("1.5")}]}`],
  ["ids, and a fraction at their end", COMPLETIONS, () => `{"prompt":[${many("12345")},1.5]}`],
  [
    "alternatives of alternatives",
    CHAT,
    () =>
      json(
        `{"oneOf":[${numbered(60, (i) => `{"oneOf":[${numbered(60, (j) => `{"type":"object","properties":{"a${i}_${j}":{"type":"integer"}}}`)}]}`)}]}`,
      ),
  ],
  ["512 bad words", CHAT, () => `{${hi},"bad_words":[${numbered(512, () => `"${randomLetters(256)}"`)}]}`],
  ["a text to tokenize", "/tokenize", () => `{"prompt":"${long("ab ")}"}`],
  ["ids to detokenize", "/detokenize", () => `{"tokens":[${many("12")}]}`],
];

/** CPU time of the process's first thread, in milliseconds. */
function cpuMs({ pid }) {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}

async function measure({ url, child }, path, body) {
  const before = cpuMs(child);
  const response = await fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body });
  const text = await response.text();
  const ms = cpuMs(child) - before;
  const { error } = JSON.parse(text);
  return { ms, answer: `${response.status} ${error?.code ?? error?.details?.error_code ?? ""}` };
}

const quiet = ["--log-level", "error"];
const engine = await startServer("engine", ...quiet);
const gateway = await startServer("serve", "--instances", "2", ...quiet);
let hasFailed = false;
try {
  console.log(
    `${"body".padEnd(46)} ${"MiB".padStart(5)}  ${"answer".padEnd(28)} engine ms  gateway ms   (most of ${rounds})`,
  );
  for (const [name, path, bodyOf] of BODIES) {
    const body = Buffer.from(bodyOf());
    // Leaves out one-time costs, such as compiling code and starting threads.
    if (name === BODIES[0][0])
      for (const server of [engine, gateway]) for (let i = 0; i < 5; i++) await measure(server, path, body);
    if (body.length > MAX_BYTES) throw new Error(`expected a body of at most 8 MiB, got ${name}: ${body.length}`);
    const results = { engine: [], gateway: [] };
    for (let round = 0; round < rounds; round++) {
      results.engine.push(await measure(engine, path, body));
      results.gateway.push(await measure(gateway, path, body));
    }
    const most = (each) => Math.max(...each.map(({ ms }) => ms));
    const [engineMs, gatewayMs] = [most(results.engine), most(results.gateway)];
    const isOver = Math.max(engineMs, gatewayMs) > MOST_MS;
    hasFailed ||= isOver;
    const mib = (body.length / 2 ** 20).toFixed(1).padStart(5);
    const times = `${engineMs.toFixed(1).padStart(9)}  ${gatewayMs.toFixed(1).padStart(10)}`;
    console.log(
      `${name.padEnd(46)} ${mib}  ${results.engine.at(-1).answer.padEnd(28)} ${times}${isOver ? "   OVER" : ""}`,
    );
  }
} finally {
  engine.child.kill();
  gateway.child.kill();
}
process.exitCode = hasFailed ? 1 : 0;
