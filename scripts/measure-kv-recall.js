/**
 * Measures how well a model of scripts/train-recall-model.py recalls over long texts with each KV type. All types get
 * the same questions; an answer is right if the likeliest next token is the key's value.
 *
 *   node scripts/measure-kv-recall.js test/fixtures/kv-recall [--lengths 1023,2046,4095,8190] [--texts 8] [--seed 173] [--out recall.json]
 *
 * Prints a Markdown table: right answers with their 95 % Wilson interval, questions that only f16 gets right, and
 * questions that only the other type gets right.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { KV_TYPES } from "../dist/src/backend/ops.js";
import { uniform } from "../dist/src/core/random.js";
import { DEFAULT_ENGINE_OPTIONS } from "../dist/src/engine/api/options.js";
import { argMax } from "../dist/src/engine/log-softmax.js";
import { openAlone } from "../dist/src/engine/lone-model.js";
import { textLogits } from "../dist/src/engine/rehearsal.js";
import { kvBytesPerToken } from "../dist/src/model/description/sizes.js";
import { wilsonInterval } from "../dist/src/quality/wilson.js";

/** The same as in scripts/train-recall-model.py. */
const ALPHABET = 64;
const QUESTIONS = 128;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    lengths: { type: "string", default: "1023,2046,4095,8190" },
    texts: { type: "string", default: "8" },
    seed: { type: "string", default: "173" },
    out: { type: "string" },
  },
});
const [modelPath] = positionals;
/** Lengths are multiples of a triple. */
const lengths = values.lengths.split(",").map(Number);
const [numTexts, seed] = [Number(values.texts), Number(values.seed)];

/** Token ids of told triples and then of asked ones, and the places of the answers. */
function textOf(length, index) {
  const draw = uniform(seed + 1000 * length + index);
  const below = (count) => Math.floor(draw() * count);
  const numTriples = length / 3;
  const numTold = numTriples - QUESTIONS;
  const keys = Array.from({ length: ALPHABET ** 2 }, (_, key) => key);
  for (let i = 0; i < numTold; i++) {
    const other = i + below(keys.length - i);
    [keys[i], keys[other]] = [keys[other], keys[i]];
  }
  const told = keys
    .slice(0, numTold)
    .map((key) => [Math.floor(key / ALPHABET), ALPHABET + (key % ALPHABET), 2 * ALPHABET + below(ALPHABET)]);
  const left = [...told];
  const asked = Array.from({ length: QUESTIONS }, () => left.splice(below(left.length), 1)[0]);
  return { ids: [...told, ...asked].flat(), firstAnswer: 3 * numTold + 2 };
}

const texts = lengths.map((length) => Array.from({ length: numTexts }, (_, index) => textOf(length, index)));
const runs = [];
for (const kvCacheDtype of ["f16", ...KV_TYPES.filter((type) => type !== "f16")]) {
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, activationDtype: "f32", kvCacheDtype };
  const { model, parts, backend } = await openAlone(options);
  for (const [index, length] of lengths.entries()) {
    const right = [];
    for (const { ids, firstAnswer } of texts[index]) {
      let position = 0;
      await textLogits(
        parts,
        ids,
        (logits) => {
          position++;
          if (position >= firstAnswer && (position - firstAnswer) % 3 === 0)
            right.push(argMax(logits) === ids[position]);
        },
        0,
      );
    }
    const numRight = right.filter(Boolean).length;
    const reference = runs.find((run) => run.length === length)?.right ?? right;
    runs.push({
      kvCacheDtype,
      length,
      bytesPerToken: kvBytesPerToken(model.config, kvCacheDtype),
      numQuestions: right.length,
      numRight,
      interval: wilsonInterval(numRight, right.length),
      lost: right.filter((isRight, i) => !isRight && reference[i]).length,
      gained: right.filter((isRight, i) => isRight && !reference[i]).length,
      right,
    });
    process.stderr.write(`  ${kvCacheDtype}, ${length} tokens: ${numRight} of ${right.length}\n`);
  }
  parts.constraints.close();
  backend.destroy();
}

const percent = (share) => (100 * share).toFixed(1);
const types = [...new Set(runs.map((run) => run.kvCacheDtype))];
process.stdout.write(`| Tokens | ${types.join(" | ")} |\n| --- |${" --- |".repeat(types.length)}\n`);
for (const length of lengths) {
  const cells = runs
    .filter((run) => run.length === length)
    .map(({ numRight, numQuestions, interval, lost, gained }) => {
      const [low, high] = interval;
      return `${percent(numRight / numQuestions)} % (${percent(low)} to ${percent(high)}; −${lost} +${gained})`;
    });
  process.stdout.write(`| ${length} | ${cells.join(" | ")} |\n`);
}
if (values.out !== undefined) {
  const kept = runs.map((run) => ({ ...run, right: run.right.map(Number).join("") }));
  writeFileSync(values.out, `${JSON.stringify({ seed, numTexts, runs: kept }, null, 1)}\n`);
}
