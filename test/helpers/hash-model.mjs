/**
 * A server of a "model" whose log-probabilities and answers are hashes of token ids, the same on every machine, with
 * the endpoints that lm-evaluation-harness uses. Its context has 64 tokens.
 *
 *   node hash-model.mjs <port>     prints its address
 */
import { createServer } from "node:http";

const MAX_LENGTH = 64;
const SPECIAL = new Map([
  ["<s>", 1],
  ["</s>", 2],
]);
const ANSWERS = [
  "4",
  " The answer is 4.",
  "I think it is $1,004.50.\nBecause.",
  "Yes!",
  "yes",
  "It is 12\n\nIt is 13",
  "A: 7 or 4",
  "no",
];

/** FNV-1a of 32 bits. */
function hash(text) {
  let bits = 0x811c9dc5;
  for (const byte of Buffer.from(text)) bits = Math.imul(bits ^ byte, 0x01000193) >>> 0;
  return bits;
}

/** Words with the blank before them, other characters, and runs of white space. */
const PIECE = /<\/?s>| ?[\p{L}\p{N}]+|[^\s\p{L}\p{N}]|\s+/gu;
const encode = (text) =>
  Array.from(text.matchAll(PIECE), ([piece]) => SPECIAL.get(piece) ?? 3 + (hash(piece) % 50_000));

/** Log-probabilities that depend on all that stands before, in steps of 1/1024, whose sums are exact. */
function echoed(ids) {
  let before = 0;
  const own = ids.map((id, at) => {
    before = hash(`${before} ${id}`);
    return at === 0 ? null : -((before % 8192) + 1) / 1024;
  });
  // Every other token is the likeliest.
  const best = own.map((logprob, at) =>
    logprob === null ? null : { " best": hash(`best ${ids[at]}`) % 2 ? logprob : logprob / 2 },
  );
  return { token_logprobs: [...own, -1], top_logprobs: [...best, { " end": -1 }] };
}

function answered(ids, { stop = [], max_tokens: most }) {
  const whole = ANSWERS[hash(ids.join(" ")) % ANSWERS.length];
  const words = whole.match(/\s*\S+/g);
  const text = words.slice(0, most).join("");
  const ends = [stop]
    .flat()
    .map((end) => text.indexOf(end))
    .filter((at) => at >= 0);
  const isStopped = ends.length > 0 || words.length <= most;
  return { text: text.slice(0, Math.min(text.length, ...ends)), finish_reason: isStopped ? "stop" : "length" };
}

function completion(body) {
  const prompts = Array.isArray(body.prompt[0]) ? body.prompt : [body.prompt];
  const choices = prompts.map((ids, index) =>
    body.echo ? { index, text: "", logprobs: echoed(ids), finish_reason: "length" } : { index, ...answered(ids, body) },
  );
  if (prompts.some((ids) => ids.length + body.max_tokens > MAX_LENGTH)) return undefined;
  return { choices, usage: { prompt_tokens: prompts.flat().length, completion_tokens: 1 } };
}

const PAGES = {
  "/v1/models": () => ({ data: [{ id: "hashes" }] }),
  "/tokenizer_info": () => ({ bos_token: "<s>", eos_token: "</s>", bos_token_id: 1, eos_token_id: 2 }),
  "/tokenize": ({ prompt }) => {
    const tokens = encode(prompt);
    return { tokens, count: tokens.length, max_model_len: MAX_LENGTH };
  },
  "/v1/completions": completion,
};

const server = createServer(async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  const answer = PAGES[request.url]?.(text === "" ? {} : JSON.parse(text));
  response.writeHead(answer === undefined ? 400 : 200, { "content-type": "application/json" });
  response.end(JSON.stringify(answer ?? { error: "no such page, or too long a prompt" }));
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${server.address().port}\n`);
});
