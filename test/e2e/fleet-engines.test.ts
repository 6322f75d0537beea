/**
 * The conformance suite against the real engines of this machine: our own, and those that a variable names.
 * scripts/engines has a script for each that sets it up on a machine without a GPU: llama-server's binary
 * (MILLRACE_LLAMA_SERVER), vLLM's program (MILLRACE_VLLM), SGLang's Python (MILLRACE_SGLANG).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, it } from "vitest";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import { describeConformance } from "../helpers/engine-conformance.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { writeRandomFolder } from "../helpers/hf-folder.js";
import { realSglang, realVllm } from "../helpers/real-engines.js";

const model = join(repositoryRoot(), "models/mill-base.gguf");
/** Every option that both have. */
const options = {
  model,
  maxNumSeqs: 2,
  maxModelLen: 1024,
  maxNumBatchedTokens: 256,
  threads: 1,
  apiKey: "sk-of-this-instance",
  kvCacheDtype: "int8",
  enablePrefixCaching: true,
};
const longAnswer = { ignore_eos: true };

describeConformance({
  kind: "real",
  spec: {
    engine: "millrace",
    program: ADAPTERS.millrace.program!,
    options: {
      ...options,
      kvCacheMemoryBytes: 2 ** 25,
      schedulingPolicy: "priority",
      speculativeConfig: { method: "ngram", num_speculative_tokens: 4 },
    },
  },
  longAnswer,
  longTokens: 900,
  capacity: { seats: 2, blockSize: 16 },
});

/**
 * An engine that the tests do not install, for its size or its compile: without the variable, the summary lists its
 * suite as skipped.
 */
function describeReal(
  engine: string,
  variable: string,
  suiteOf: (program: string) => Parameters<typeof describeConformance>[0],
): void {
  const program = process.env[variable];
  if (program !== undefined) {
    describeConformance(suiteOf(program));
    return;
  }
  describe(`${engine} (real)`, () => {
    // The reason stands in the name, from which the summary takes it.
    it.skip(`needs its program: set ${variable} to the path that scripts/engines/${engine}.sh prints`, () => {});
  });
}

describeReal("llama-server", "MILLRACE_LLAMA_SERVER", (program) => ({
  kind: "real",
  spec: {
    engine: "llama-server",
    program: [program],
    options: { ...options, speculativeConfig: { method: "draft_model", model, num_speculative_tokens: 4 } },
  },
  longAnswer,
  longTokens: 900,
  capacity: { seats: 2, kvTokens: 2048 },
}));

/** A random llama that both load, and whose answers do not end by themselves. */
function randomModel(prefix: string): string {
  const folder = mkdtempSync(join(tmpdir(), prefix));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return writeRandomFolder(join(folder, "model"));
}

const randomOptions = {
  servedModelName: "random",
  maxNumSeqs: 2,
  // An answer long enough that a scrape sees it: this tiny model ends 900 tokens within a second or two.
  maxModelLen: 2048,
  maxNumBatchedTokens: 2048,
  threads: 1,
  apiKey: "sk-of-this-instance",
  enablePrefixCaching: true,
  schedulingPolicy: "priority",
};

describeReal("vllm", "MILLRACE_VLLM", (program) => ({
  kind: "real",
  spec: { ...realVllm(program), options: { ...randomOptions, model: randomModel("millrace-vllm-") } },
  longAnswer,
  longTokens: 1900,
  // Of its CPU build.
  capacity: { blockSize: 128 },
  startTimeoutMs: 240_000,
  sleepless: "vLLM's CPU build refuses --enable-sleep-mode: it is not supported on this platform",
}));

describeReal("sglang", "MILLRACE_SGLANG", (program) => ({
  kind: "real",
  spec: { ...realSglang(program), options: { ...randomOptions, model: randomModel("millrace-sglang-") } },
  longAnswer,
  longTokens: 1900,
  capacity: { seats: 2, kvTokens: 8192, blockSize: 1 },
  startTimeoutMs: 240_000,
  sleepless: "SGLang's memory saver, which --enable-memory-saver needs, exists for GPUs alone",
}));
