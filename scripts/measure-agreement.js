/**
 * Compares this engine's likeliest next tokens with those of the engines for which `millrace quantize` exports, on the
 * same files and folders, under teacher forcing: each position gets the text's true past.
 *
 *   npm install --prefix /tmp/peer --ignore-scripts node-llama-cpp@3.22.1
 *   python3 -m venv venv && venv/bin/pip install torch transformers compressed-tensors gguf accelerate
 *   node scripts/measure-agreement.js --work /tmp/agreement [--model models/mill-base.gguf] [--methods Q4_0,INT8] [--max-size 3.5MiB] [--texts 8] [--tokens 512]
 *     [--llama-cpp /tmp/peer] [--transformers venv/bin/python] [--vllm vllm-venv/bin/python] [--vllm-dtype bfloat16] [--rounded Q8_0,INT8] [--calibrate 8192] [--out agreement.json]
 *
 * The method BF16 stands for the output of `millrace convert`. Exports are calibrated with that many tokens of chats;
 * with 0, each weight is rounded separately. Exports and tokens stay in --work, and existing ones are reused. Engines
 * without a flag are left out. Exports of --rounded are also computed with inputs rounded as in llama.cpp or vLLM, in
 * float32 and in float64: the two only differ in the last bits before each rounding.
 *
 * Prints a Markdown table: shares of positions with the same token and, where tokens differ, the largest gap between
 * this engine's two likeliest in nats; then the largest difference of log-probabilities of a token that both choose.
 * `--model` may be a folder: scripts/engines/random-folder.py makes folders of other architectures.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs, promisify } from "node:util";
import { chatAt } from "../dist/models/corpus/families.js";
import { isFolderMethod } from "../dist/src/compress/folder-formats.js";
import { METHODS } from "../dist/src/compress/storage.js";
import { DEFAULT_ENGINE_OPTIONS } from "../dist/src/engine/api/options.js";
import { argMax, logSoftmax } from "../dist/src/engine/log-softmax.js";
import { openAlone } from "../dist/src/engine/lone-model.js";
import { textLogits } from "../dist/src/engine/rehearsal.js";
import { loadTextSide } from "../dist/src/text/text-side.js";

const CALIBRATION = { seed: 7, chats: 400 };
/** A seed that neither training nor calibration uses. */
const TEXT_SEED = 990_182;
const run = promisify(execFile);

const { values } = parseArgs({
  options: {
    work: { type: "string" },
    model: { type: "string", default: "models/mill-base.gguf" },
    methods: { type: "string", default: METHODS.join(",") },
    "max-size": { type: "string" },
    texts: { type: "string", default: "8" },
    tokens: { type: "string", default: "512" },
    "llama-cpp": { type: "string" },
    transformers: { type: "string" },
    vllm: { type: "string" },
    "vllm-dtype": { type: "string" },
    rounded: { type: "string", default: "Q8_0,Q4_K_M,INT8,FP8" },
    calibrate: { type: "string", default: "8192" },
    out: { type: "string" },
  },
});
if (values.work === undefined) throw new Error("expected --work with a folder for exports and tokens, got nothing");
const name = basename(values.model, ".gguf");
// The folder's name covers everything on which exports and tokens depend.
const place = join(
  resolve(values.work),
  `${name}-${values.texts}x${values.tokens}-calibrate-${values.calibrate}-size-${values["max-size"] ?? "none"}`,
);
mkdirSync(place, { recursive: true });
const millrace = (...args) => run(process.execPath, ["bin/millrace.js", ...args]);

function chatsOf(seed, count) {
  return Array.from({ length: count }, (_, index) => ({ messages: chatAt(seed, index).messages }));
}

/** Token ids of consecutive chats, cut into texts. */
async function writeTexts(path) {
  const [numTexts, numTokens] = [Number(values.texts), Number(values.tokens)];
  const { tokenizer, chatTemplate, asyncTokenizer } = await loadTextSide(values.model);
  const ids = [];
  for (let index = 0; ids.length < numTexts * numTokens; index++) {
    const { messages } = chatAt(TEXT_SEED, index);
    const text = chatTemplate.render({ messages, addGenerationPrompt: false });
    ids.push(...tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
  }
  asyncTokenizer.end();
  const texts = Array.from({ length: numTexts }, (_, i) => ids.slice(i * numTokens, (i + 1) * numTokens));
  writeFileSync(path, JSON.stringify(texts));
}

/** Folders with all weights in bfloat16: made from the model, and from its GGUF file. */
const COPIES = ["BF16", "BF16, through a file"];

async function writeCopy(label, out) {
  const copy = (model, path) => millrace("convert", "--model", model, "--dtype", "bfloat16", "--out", path);
  const file = `${out}.gguf`;
  if (label === COPIES[1] && !existsSync(file)) await copy(values.model, file);
  await copy(label === COPIES[1] ? file : values.model, out);
}

/** Files and folders by their label. */
async function writeExports(chats) {
  const named = values.methods.split(",");
  const made = named.flatMap((method) => {
    if (method === "BF16") return COPIES.map((label) => ({ label, path: label.replaceAll(/\W+/g, "-") }));
    if (!isFolderMethod(method)) return [{ label: method, path: `${method}.gguf`, how: ["--method", method] }];
    const folder = { label: method, path: method, how: ["--method", method] };
    if (method !== "INT4_128") return [folder];
    const layouts = ["awq", "gptq"].map((layout) => ({
      label: `${method}, ${layout}`,
      path: `${method}-${layout}`,
      how: ["--method", method, "--layout", layout],
    }));
    return [folder, ...layouts];
  });
  const size = values["max-size"];
  if (size !== undefined) made.push({ label: "MIXED", path: "MIXED.gguf", how: ["--max-size", size] });
  const calibration = values.calibrate === "0" ? [] : ["--calibrate", chats, "--calibration-tokens", values.calibrate];
  const found = [];
  for (const { label, path, how } of made) {
    const out = join(place, path);
    if (!existsSync(out) && how === undefined) await writeCopy(label, out);
    if (!existsSync(out)) await millrace("quantize", "--model", values.model, ...calibration, ...how, "--out", out);
    found.push({ label, path: out, isFolder: !path.endsWith(".gguf") });
    process.stderr.write(`  ${name} ${label} is there\n`);
  }
  return found;
}

/** The copy with every weight in F32. */
async function plainCopy(path) {
  const copy = path.replace(/\.gguf$/, ".plain-f32.gguf");
  if (!existsSync(copy)) await millrace("convert", "--model", path, "--dtype", "float32", "--out", copy);
  return copy;
}

/** @returns likeliest ids of each text, their log-probabilities, and their lead over the second in nats */
async function ownTops(modelPath, texts, activationDtype) {
  const kvCacheDtype = activationDtype === "f32" ? "f32" : DEFAULT_ENGINE_OPTIONS.kvCacheDtype;
  const maxModelLen = Math.max(...texts.map(({ length }) => length)) + 1;
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, activationDtype, kvCacheDtype, maxModelLen };
  const { parts, backend } = await openAlone(options);
  const [top, logprob, gap] = [[], [], []];
  for (const ids of texts) {
    const [ownTop, ownLogprob, ownGap] = [[], [], []];
    const read = (logits) => {
      const best = argMax(logits);
      const most = logits[best];
      ownLogprob.push(Number(logSoftmax(logits)[best].toFixed(6)));
      logits[best] = Number.NEGATIVE_INFINITY;
      ownTop.push(best);
      ownGap.push(Number((most - logits[argMax(logits)]).toFixed(5)));
    };
    await textLogits(parts, ids, read, 0);
    top.push(ownTop);
    logprob.push(ownLogprob);
    gap.push(ownGap);
  }
  parts.constraints.close();
  backend.destroy();
  return { top, logprob, gap };
}

/** Calls `keep` with each line of JSON as it arrives. */
async function eachLine(command, args, env, keep) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  let told = "";
  child.stderr.setEncoding("utf8").on("data", (text) => {
    told = (told + text).slice(-2000);
  });
  const ended = once(child, "close");
  for await (const line of createInterface({ input: child.stdout })) keep(JSON.parse(line));
  const [code, signal] = await ended;
  if (code !== 0) throw new Error(`expected ${command} ${args[0]} to end well, got ${code ?? signal}: ${told}`);
}

const PYTHON_ENV = {
  OMP_NUM_THREADS: "1",
  HF_HUB_OFFLINE: "1",
  VLLM_NO_USAGE_STATS: "1",
  VLLM_CPU_KVCACHE_SPACE: "1",
  VLLM_CPU_OMP_THREADS_BIND: "nobind",
};

/**
 * The engines in the order of their runs. `lines` calls its second argument with `{ path, top }` or `{ path, error }`
 * of each export.
 */
function enginesFor(textsPath, texts) {
  const { transformers, vllm, "llama-cpp": llamaCpp } = values;
  const own = (activationDtype) => async (all, keep) => {
    for (const { path } of all) keep({ path, ...(await ownTops(path, texts, activationDtype)) });
  };
  const llama = (copyOf) => async (all, keep) => {
    const copies = new Map();
    for (const { path } of all) copies.set(await copyOf(path), path);
    const args = ["scripts/engines/llama-cpp-top-tokens.js", llamaCpp, textsPath, ...copies.keys()];
    await eachLine(process.execPath, args, {}, ({ model, ...line }) => keep({ path: copies.get(model), ...line }));
  };
  const python = (interpreter, engine, how) => (all, keep) => {
    const args = ["scripts/engines/top-tokens.py", engine, textsPath, ...all.map(({ path }) => path), ...how];
    return eachLine(interpreter, args, PYTHON_ENV, ({ model, ...line }) => keep({ path: model, ...line }));
  };
  const hasPython = transformers !== undefined;
  const rounded = ["--activations", "rounded"];
  const isRounded = ({ label }) => hasPython && values.rounded.split(",").includes(label);
  return [
    { id: "ours, f32", takes: () => true, lines: own("f32") },
    { id: "ours", takes: () => true, lines: own("auto") },
    {
      id: "llama.cpp",
      takes: ({ isFolder }) => llamaCpp !== undefined && !isFolder,
      lines: llama((path) => path),
    },
    {
      id: "llama.cpp, weights in F32",
      takes: ({ isFolder }) => llamaCpp !== undefined && !isFolder,
      lines: llama(plainCopy),
    },
    { id: "transformers", takes: () => hasPython, lines: python(transformers, "transformers", []) },
    {
      id: "transformers, rounded",
      takes: isRounded,
      lines: python(transformers, "transformers", rounded),
    },
    {
      id: "transformers, rounded, float64",
      takes: isRounded,
      lines: python(transformers, "transformers", [...rounded, "--dtype", "float64"]),
    },
    {
      id: "vLLM",
      takes: ({ isFolder }) => vllm !== undefined && isFolder,
      lines: async (all, keep) => {
        for (const dtype of ["float32", "float16", "bfloat16"]) {
          const own = all.filter(({ label }) => vllmDtype(label) === dtype);
          if (own.length > 0) await python(vllm, "vllm", ["--dtype", dtype])(own, keep);
        }
      },
    },
    {
      id: "vLLM, products by torch",
      takes: ({ label }) => vllm !== undefined && label === "NVFP4",
      lines: async (all, keep) => {
        await python(vllm, "vllm", ["--dtype", vllmDtype("NVFP4"), "--nvfp4-products", "torch"])(all, keep);
      },
    },
  ];
}

/** The type that vLLM's kernels require for the export. */
function vllmDtype(label) {
  if (values["vllm-dtype"] !== undefined) return values["vllm-dtype"];
  if (label.startsWith("INT4")) return "float16";
  return label === "FP8_BLOCK" || label === "FP8_TENSOR" ? "bfloat16" : "float32";
}

const ROUNDED = "transformers, rounded";
/** Pairs of engines by the heading of their column. */
const PAIRS = [
  ["ours in f32, transformers in float32", "ours, f32", "transformers"],
  ["ours in f32, llama.cpp in float32", "ours, f32", "llama.cpp, weights in F32"],
  ["ours in f32, llama.cpp", "ours, f32", "llama.cpp"],
  ["ours, llama.cpp", "ours", "llama.cpp"],
  ["transformers with llama.cpp's rounded inputs, llama.cpp", ROUNDED, "llama.cpp"],
  ["ours in f32, vLLM", "ours, f32", "vLLM"],
  ["ours in f32, vLLM with products by torch", "ours, f32", "vLLM, products by torch"],
  ["transformers with vLLM's rounded inputs, vLLM", ROUNDED, "vLLM"],
  ["transformers with rounded inputs in float32, in float64", ROUNDED, "transformers, rounded, float64"],
];

/**
 * Over all positions of `a` and `b`, whose `top` and `logprob` are arrays of texts. llama.cpp returns no
 * log-probabilities.
 * @param gaps of this engine in f32
 */
function compare(a, b, gaps) {
  const differing = [];
  let numPositions = 0;
  let furthest = 0;
  for (const [text, ids] of a.top.entries()) {
    for (const [at, id] of ids.entries()) {
      numPositions++;
      if (id !== b.top[text][at]) differing.push(gaps[text][at]);
      else if (a.logprob && b.logprob)
        furthest = Math.max(furthest, Math.abs(a.logprob[text][at] - b.logprob[text][at]));
    }
  }
  const largestGap = Math.max(0, ...differing);
  const apart = a.logprob && b.logprob ? { furthest: Number(furthest.toFixed(6)) } : {};
  return { numPositions, numSame: numPositions - differing.length, largestGap, ...apart };
}

const textsPath = join(place, "texts.json");
if (!existsSync(textsPath)) await writeTexts(textsPath);
const texts = JSON.parse(readFileSync(textsPath, "utf8"));
const chatsPath = join(place, "chats.jsonl");
const chats = chatsOf(CALIBRATION.seed, CALIBRATION.chats);
writeFileSync(chatsPath, `${chats.map((chat) => JSON.stringify(chat)).join("\n")}\n`);

const exports = await writeExports(chatsPath);
const engines = enginesFor(textsPath, texts);
const keptFor = (path, id) => `${path}.${id.replaceAll(/[^a-zA-Z0-9]+/g, "-")}.json`;
/** Errors of exports that an engine refuses. */
const failures = new Map();
for (const { id, takes, lines } of engines) {
  const left = exports.filter((each) => takes(each) && !existsSync(keptFor(each.path, id)));
  if (left.length === 0) continue;
  await lines(left, ({ path, ...line }) => {
    // The next run retries failed exports.
    if (line.error === undefined) writeFileSync(keptFor(path, id), JSON.stringify(line));
    else failures.set(keptFor(path, id), line.error);
    process.stderr.write(`  ${name}: ${id}: ${basename(path)} ${line.error ?? ""}\n`);
  });
}

const rows = exports.map(({ label, path, isFolder }) => {
  const known = {};
  const errors = {};
  for (const { id } of engines) {
    const kept = keptFor(path, id);
    if (failures.has(kept)) errors[id] = failures.get(kept);
    else if (existsSync(kept)) known[id] = JSON.parse(readFileSync(kept, "utf8"));
  }
  const pairs = PAIRS.filter(([, a, b]) => a in known && b in known).map(([pair, a, b]) => ({
    pair,
    ...compare(known[a], known[b], known["ours, f32"].gap),
  }));
  return { export: label, isFolder, pairs, errors };
});

for (const isFolder of [false, true]) {
  const own = rows.filter((row) => row.isFolder === isFolder);
  const heads = PAIRS.map(([pair]) => pair).filter((head) =>
    own.some(({ pairs }) => pairs.some(({ pair }) => pair === head)),
  );
  if (heads.length === 0) continue;
  process.stdout.write(`\n| ${name} | ${heads.join(" | ")} |\n| --- |${" --- |".repeat(heads.length)}\n`);
  for (const { export: label, pairs } of own) {
    const cells = heads.map((head) => {
      const found = pairs.find(({ pair }) => pair === head);
      if (found === undefined) return "";
      const { numSame, numPositions, largestGap, furthest } = found;
      const apart = furthest === undefined ? "" : `; ${furthest.toFixed(5)}`;
      return `${((100 * numSame) / numPositions).toFixed(2)} % (${largestGap.toFixed(3)}${apart})`;
    });
    process.stdout.write(`| ${label} | ${cells.join(" | ")} |\n`);
  }
}
if (values.out !== undefined) {
  const report = { model: name, texts: texts.length, tokens: texts[0].length, seed: TEXT_SEED, rows };
  writeFileSync(values.out, `${JSON.stringify(report)}\n`);
}
