/**
 * Measures the semantic cache's decisions on pairs of questions: precision and recall with the vetoes, with similarity
 * alone, and by class, each with an exact 95 % interval.
 *
 *   node scripts/evaluate-semantic-cache.js PAIRS.jsonl[.gz] [--embeddings URL --model NAME] [--strictness strict] [--similarity 0.7] [--errors]
 *
 * A line is {"a", "b", "same", "class"}: two questions, or two bodies of /v1/chat/completions; whether one's answer
 * answers the other; and what was changed. Without --embeddings, every pair counts as similar.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import { routeOf } from "../dist/src/gateway/api/routes.js";
import { dot, unitVector } from "../dist/src/gateway/semantic/index/vector-index.js";
import { lowerBound, upperBound } from "../dist/src/gateway/semantic/learning/clopper-pearson.js";
import { subjectOf } from "../dist/src/gateway/semantic/subject.js";
import { objectionsTo, VETOES } from "../dist/src/gateway/semantic/vetoes/vetoes.js";

const PATH = "/v1/chat/completions";
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    embeddings: { type: "string" },
    model: { type: "string", default: "minilm" },
    strictness: { type: "string", default: "strict" },
    similarity: { type: "string", default: "0.7" },
    errors: { type: "boolean", default: false },
  },
});
const file = readFileSync(positionals[0]);
const pairs = (positionals[0].endsWith(".gz") ? gunzipSync(file) : file)
  .toString("utf8")
  .split("\n")
  .filter((line) => line.trim() !== "")
  .map((line) => JSON.parse(line));
const floor = Number(values.similarity);
const context = { strictness: values.strictness, rarity: () => 0.5 };

function requestOf(side) {
  const body = typeof side === "string" ? { model: "m", messages: [{ role: "user", content: side }] } : side;
  const bytes = Buffer.from(JSON.stringify(body));
  return { path: PATH, url: PATH, route: routeOf(PATH), headers: {}, body, bytes };
}

const terms = {
  scope: { kind: "tenant", name: "t", credentials: "" },
  model: "m",
  version: "v",
  embedder: "e",
  isMultiTurn: false,
};

const textOf = (side) => {
  const content = typeof side === "string" ? side : side.messages.at(-1).content;
  return typeof content === "string" ? content : JSON.stringify(content);
};

/** Cosines of the pairs, in batches; 1 without a model. */
async function cosines() {
  if (values.embeddings === undefined) return pairs.map(() => 1);
  const texts = [...new Set(pairs.flatMap(({ a, b }) => [textOf(a), textOf(b)]))];
  const vectors = new Map();
  for (let i = 0; i < texts.length; i += 64) {
    const input = texts.slice(i, i + 64);
    const response = await fetch(`${values.embeddings}/v1/embeddings`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: values.model, input, truncate_prompt_tokens: -1 }),
    });
    if (!response.ok) throw new Error(`expected vectors, got ${response.status}: ${await response.text()}`);
    const { data } = await response.json();
    for (const { index, embedding } of data) vectors.set(input[index], unitVector(embedding));
  }
  return pairs.map(({ a, b }) => dot(vectors.get(textOf(a)), vectors.get(textOf(b))));
}

/** Objections to a hit; empty: the cache would answer one question with the other's answer. */
function objections({ a, b }) {
  const [left, right] = [subjectOf(requestOf(a), terms), subjectOf(requestOf(b), terms)];
  if (left === undefined || right === undefined) return ["not-cacheable"];
  const namespace = left.namespace === right.namespace ? [] : ["namespace"];
  return [...namespace, ...objectionsTo(left.question, right.question, context)];
}

const percent = (share) => (Number.isNaN(share) ? "–" : `${(100 * share).toFixed(2)} %`);
/** Two-sided 95 %. */
const interval = (num, of) =>
  of === 0
    ? "–"
    : `${percent(num / of)} [${percent(lowerBound(num, of, 0.975))}, ${percent(upperBound(num, of, 0.975))}]`;

function line(name, judged) {
  const hits = judged.filter(({ isHit }) => isHit);
  const right = hits.filter(({ same }) => same).length;
  const all = judged.filter(({ same }) => same).length;
  console.log(
    `${name.padEnd(34)} ${String(judged.length).padStart(6)} pairs  ${String(hits.length).padStart(6)} hits  ` +
      `precision ${interval(right, hits.length).padEnd(32)}  recall ${interval(right, all)}`,
  );
}

const similarities = await cosines();
const judged = pairs.map((pair, i) => {
  const found = objections(pair);
  return { ...pair, similarity: similarities[i], found, isHit: found.length === 0 && similarities[i] >= floor };
});
console.log(
  `${pairs.length} pairs, ${pairs.filter(({ same }) => same).length} of them the same question; ${values.strictness}`,
);
line(`vetoes, similarity ≥ ${floor}`, judged);
if (values.embeddings !== undefined) {
  for (const threshold of [0.7, 0.8, 0.85, 0.9, 0.95, 0.98]) {
    line(
      `similarity ≥ ${threshold} alone`,
      judged.map((each) => ({ ...each, isHit: each.similarity >= threshold })),
    );
  }
}
console.log("\nby class, with vetoes");
for (const name of [...new Set(pairs.map((pair) => pair.class))].sort()) {
  line(
    `  ${name}`,
    judged.filter((pair) => pair.class === name),
  );
}
console.log(
  "\nobjections to pairs of different questions, and to pairs of the same (the price); alone: no other veto objected",
);
for (const name of ["not-cacheable", "namespace", ...VETOES.map((veto) => veto.name)]) {
  const of = (same) => judged.filter((pair) => pair.same === same && pair.found.includes(name));
  const alone = (same) => of(same).filter(({ found }) => found.length === 1).length;
  console.log(
    `  ${name.padEnd(16)} ${of(false).length} (${alone(false)} alone)   ${of(true).length} (${alone(true)} alone)`,
  );
}
if (values.errors) {
  for (const { a, b, class: name, similarity } of judged.filter(({ isHit, same }) => isHit && !same)) {
    console.log(`false hit (${name}, ${similarity.toFixed(3)}): ${textOf(a)} ~ ${textOf(b)}`);
  }
}
