/**
 * Validates the gate of `millrace quantize`: damaged and harmless candidates of the bundled model answer the number of
 * items that the gate's power calculation requires, and their verdicts are counted beside the predicted ones. True drop
 * and flips come from a larger set of other items.
 *
 *   node scripts/measure-gate.js [--flips 0.05] [--truth 2000] [--noise 0.15,0.5] [--damaged 20] [--harmless 20] [--out gate.json]
 *
 * Damage is normal noise on every matrix of the layers, relative to the matrix's root mean square, with strengths
 * between those of --noise. Prints Markdown tables.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { chatAt, readMixture } from "../dist/models/corpus/families.js";
import { quantise } from "../dist/src/compress/quantise.js";
import { uniform } from "../dist/src/core/random.js";
import { silentStages } from "../dist/src/core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../dist/src/engine/api/options.js";
import { f16ToNumber, numberToF16 } from "../dist/src/formats/dequantize.js";
import { readGguf } from "../dist/src/formats/gguf/read.js";
import { openEvalTarget } from "../dist/src/lab/eval-target.js";
import { evaluate } from "../dist/src/lab/evaluate.js";
import { promptId } from "../dist/src/quality/ask.js";
import { compare } from "../dist/src/quality/compare.js";
import { itemsNeeded, powerOf } from "../dist/src/quality/paired.js";

const MODEL = "models/mill-base.gguf";
const MARGIN = 0.02;
const MIXTURE = readMixture("arithmetic=8,sort=2,copy=1");
/** Short items, so that many are answered in little time. */
const MOST_LETTERS = { question: 110, answer: 12 };
/** Seeds that training does not use. */
const SEED = 990_031;
/**
 * Harmless by their losses in docs/background/benchmarks/quantising.md. Noise of HARMLESS_NOISE with other seeds
 * follows them.
 */
const HARMLESS_METHODS = ["Q8_0", "Q6_K", "Q5_K_M", "Q5_1", "Q5_0", "Q4_K_M"];
const HARMLESS_NOISE = 0.003;

const { values } = parseArgs({
  options: {
    flips: { type: "string", default: "0.05" },
    truth: { type: "string", default: "2000" },
    noise: { type: "string", default: "0.15,0.5" },
    damaged: { type: "string", default: "20" },
    harmless: { type: "string", default: "20" },
    out: { type: "string" },
  },
});
const [numTruth, numDamaged, numHarmless] = [values.truth, values.damaged, values.harmless].map(Number);
const [least, most] = values.noise.split(",").map(Number);
const numGate = itemsNeeded(Number(values.flips), MARGIN);

const evaluation = {
  temperature: 0,
  maxTokens: 24,
  seed: 0,
  concurrency: 1,
  engine: { ...DEFAULT_ENGINE_OPTIONS, numThreads: 1, maxModelLen: 256, maxNumSeqs: 64 },
};
/** Ctrl-C ends the run with the tables of the candidates so far. */
const stopping = new AbortController();
const { signal } = stopping;
process.once("SIGINT", () => stopping.abort());

/**
 * Distinct items in the order of their prompts' hashes: the first of equal items counts, so rarer, harder ones are
 * drawn later.
 */
function distinctChats(count) {
  const chats = new Map();
  for (let index = 0; chats.size < count; index++) {
    const chat = chatAt(SEED, index, MIXTURE);
    const question = chat.messages.slice(0, -1).reduce((sum, { content }) => sum + content.length, 0);
    const isShort = question <= MOST_LETTERS.question && chat.messages.at(-1).content.length <= MOST_LETTERS.answer;
    if (isShort && chat.check.kind !== "none") chats.set(JSON.stringify(chat.messages), chat);
  }
  const ids = new Map([...chats.values()].map((chat) => [promptId(chat.messages), chat]));
  return [...ids.keys()].sort().map((id) => ids.get(id));
}

async function answersOf(model, tasks) {
  const target = await openEvalTarget({ kind: "local", model }, evaluation, silentStages, signal);
  try {
    return await evaluate(target, tasks, silentStages);
  } finally {
    await target.close();
  }
}

function addNoise(path, strength, seed) {
  const bytes = readFileSync(MODEL);
  const random = uniform(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  for (const { name, type, byteOffset, byteLength } of readGguf(MODEL).tensors.values()) {
    if (!name.startsWith("blk.") || type !== "F16") continue;
    const halves = new Uint16Array(bytes.buffer, bytes.byteOffset + byteOffset, byteLength / 2);
    let squares = 0;
    for (const half of halves) squares += f16ToNumber(half) ** 2;
    const deviation = strength * Math.sqrt(squares / halves.length);
    for (let i = 0; i < halves.length; i++) halves[i] = numberToF16(f16ToNumber(halves[i]) + deviation * normal());
  }
  writeFileSync(path, bytes);
}

async function quantiseTo(out, method) {
  const settings = {
    model: MODEL,
    out,
    methods: [method],
    layout: "compressed-tensors",
    about: {},
    texts: [],
    rounding: "nearest",
    scaling: "none",
    numThreads: 1,
    heldOut: [],
  };
  await quantise(settings, silentStages, () => {}, signal);
}

/** The gate's predicted verdict for a candidate with this true drop and these flips. */
function predicted({ drop, flips }) {
  const passes = powerOf(numGate, flips, MARGIN, drop);
  const fails = powerOf(numGate, flips, -MARGIN, -drop);
  return { passes, fails };
}

const chats = distinctChats(numGate + numTruth);
const tasks = [
  { name: "gate", chats: chats.slice(0, numGate) },
  { name: "truth", chats: chats.slice(numGate) },
];
const only = (results, name) => results.filter(({ task }) => task === name);

const folder = mkdtempSync(join(tmpdir(), "millrace-gate-"));
const candidates = [];
let original;
try {
  original = await answersOf(MODEL, tasks);
  const judge = async (kind, name, make) => {
    const path = join(folder, "candidate.gguf");
    await make(path);
    const answers = await answersOf(path, tasks);
    rmSync(path);
    const gate = compare(only(original, "gate"), only(answers, "gate"), MARGIN);
    const { overall } = compare(only(original, "truth"), only(answers, "truth"), MARGIN);
    const truth = { drop: overall.drop, flips: (overall.numLost + overall.numWon) / overall.numItems };
    const { verdict, numMoreItems } = gate;
    const candidate = {
      kind,
      name,
      truth,
      drop: gate.overall.drop,
      verdict,
      numMoreItems,
      predicted: predicted(truth),
    };
    candidates.push(candidate);
    process.stderr.write(`${JSON.stringify(candidate)}\n`);
  };
  for (let i = 0; i < numDamaged; i++) {
    // In scattered order, so that a run that ends early has some of all strengths.
    const strength = least + ((most - least) * ((7 * i) % numDamaged)) / Math.max(1, numDamaged - 1);
    await judge("damaged", `noise ${strength.toFixed(4)}`, (path) => addNoise(path, strength, 1000 + i));
  }
  for (let i = 0; i < numHarmless; i++) {
    const method = HARMLESS_METHODS[i];
    if (method !== undefined) await judge("harmless", method, (path) => quantiseTo(path, method));
    else await judge("harmless", `noise ${HARMLESS_NOISE}, seed ${i}`, (path) => addNoise(path, HARMLESS_NOISE, i));
  }
} catch (thrown) {
  if (!signal.aborted) throw thrown;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

if (candidates.length > 0) print();

function print() {
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const right = only(original, "truth")[0].exact;
  process.stdout.write(
    `${numGate} items, margin ${percent(MARGIN)}; truth: ${numTruth} items, ${percent(right)} right\n\n`,
  );
  process.stdout.write("| Candidate | True drop | Flips | Drop seen | Verdict | More items | P(passes) | P(fails) |\n");
  process.stdout.write("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const { name, truth, drop, verdict, numMoreItems = "", predicted: p } of candidates) {
    const row = [name, percent(truth.drop), percent(truth.flips), percent(drop), verdict, numMoreItems];
    process.stdout.write(`| ${[...row, percent(p.passes), percent(p.fails)].join(" | ")} |\n`);
  }
  process.stdout.write("\n| Candidates | Passed | predicted | Failed | predicted | Undecided |\n");
  process.stdout.write("| --- | --- | --- | --- | --- | --- |\n");
  for (const kind of ["damaged", "harmless"]) {
    const all = candidates.filter((each) => each.kind === kind);
    const count = (verdict) => all.filter((each) => each.verdict === verdict).length;
    const sum = (key) => all.reduce((total, { predicted: p }) => total + p[key], 0).toFixed(1);
    const row = [`${all.length} ${kind}`, count("passes"), sum("passes"), count("fails"), sum("fails")];
    process.stdout.write(`| ${[...row, count("undecided")].join(" | ")} |\n`);
  }
  if (values.out === undefined) return;
  const report = { model: MODEL, margin: MARGIN, numGate, numTruth, seed: SEED, right, candidates };
  writeFileSync(values.out, `${JSON.stringify(report)}\n`);
}
