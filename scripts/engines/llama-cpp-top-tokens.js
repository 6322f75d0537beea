/**
 * Prints llama.cpp's likeliest next token at every position of given texts, computed with keys and values in F32: a
 * line of JSON per model, `{"model", "top": [[id, …] of each text]}`, or `{"model", "error"}` if the model does not
 * load.
 *
 *   npm install --prefix /tmp/peer --ignore-scripts node-llama-cpp@3.22.1
 *   node scripts/engines/llama-cpp-top-tokens.js /tmp/peer texts.json model.gguf …
 *
 * texts.json is an array of texts as token ids.
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [peer, texts, ...models] = process.argv.slice(2);
const all = JSON.parse(readFileSync(texts, "utf8"));
const longest = Math.max(...all.map(({ length }) => length));
const module = join(resolve(peer), "node_modules/node-llama-cpp/dist/index.js");
const { getLlama } = await import(pathToFileURL(module).href);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });

async function topsOf(modelPath) {
  const model = await llama.loadModel({ modelPath });
  const types = { experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" };
  const context = await model.createContext({ contextSize: longest + 1, batchSize: longest, threads: 1, ...types });
  const sequence = context.getSequence();
  const options = { temperature: 1, topK: 2, topP: 1, minP: 0 };
  const tops = [];
  for (const ids of all) {
    await sequence.clearHistory();
    const rows = await sequence.controlledEvaluate(
      ids.map((id) => [id, { generateNext: { probabilities: true, options } }]),
    );
    tops.push(
      rows.map(({ next }) => [...next.probabilities].reduce((best, each) => (each[1] > best[1] ? each : best))[0]),
    );
  }
  await context.dispose();
  await model.dispose();
  return tops;
}

for (const model of models) {
  const line = await topsOf(model).then(
    (top) => ({ model, top }),
    ({ message }) => ({ model, error: message }),
  );
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
process.exit(0);
