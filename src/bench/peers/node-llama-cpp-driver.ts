/**
 * Measures llama.cpp through node-llama-cpp in a separate process: argument 1 is a `DriverJob` as JSON, and the last
 * line of stdout is `{"results": [SpeedRow]}`. Sequences run in lockstep: a step ends when each has its token, as in
 * our own measurement.
 */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { randomPrompts } from "../engine/random-prompts.js";
import type { Shape, SpeedRow } from "./shapes.js";

interface DriverJob extends Shape {
  /** The folder with node_modules/node-llama-cpp. */
  readonly folder: string;
  readonly modelPath: string;
  readonly numThreads: number;
  readonly vocabSize: number;
}

/** The part of node-llama-cpp's interface that is used here (its documentation, version 3.22). */
interface NodeLlamaCpp {
  getLlama(options: object): Promise<{
    loadModel(options: object): Promise<{
      createContext(options: object): Promise<{
        getSequence(): LlamaSequence;
        dispose(): Promise<void>;
      }>;
    }>;
  }>;
}

interface LlamaSequence {
  evaluate(tokens: readonly number[], options: object): AsyncGenerator<number, void, void>;
}

/** One batch size: prompts until each sequence has its first token, then genTokens − 1 steps. */
async function measure(sequences: readonly LlamaSequence[], job: DriverJob, seed: number): Promise<SpeedRow> {
  const { promptTokens, genTokens, vocabSize } = job;
  const batch = sequences.length;
  const prompts = randomPrompts({ batch, promptTokens, sharedPrefix: 0, vocabSize }, seed);
  const options = { temperature: 0, yieldEogToken: true };
  const streams = sequences.map((sequence, index) => sequence.evaluate([...prompts[index]!], options));
  const step = async (): Promise<void> => {
    const tokens = await Promise.all(streams.map((stream) => stream.next()));
    if (tokens.some(({ done }) => done)) throw new Error("expected every sequence to go on, got the end of one");
  };
  const startMs = performance.now();
  await step();
  const firstMs = performance.now();
  for (let index = 1; index < genTokens; index++) await step();
  const endMs = performance.now();
  await Promise.all(streams.map((stream) => stream.return()));
  return {
    batch,
    promptTokens,
    genTokens,
    prefillTokensPerS: (1000 * batch * promptTokens) / (firstMs - startMs),
    decodeTokensPerS: (1000 * batch * (genTokens - 1)) / (endMs - firstMs),
  };
}

async function main(job: DriverJob): Promise<void> {
  const entry = join(resolve(job.folder), "node_modules/node-llama-cpp/dist/index.js");
  const { getLlama } = (await import(pathToFileURL(entry).href)) as NodeLlamaCpp;
  const llama = await getLlama({ gpu: false, build: "never", maxThreads: job.numThreads, logLevel: "error" });
  const model = await llama.loadModel({ modelPath: job.modelPath });
  const results: SpeedRow[] = [];
  for (const batch of job.batches) {
    const context = await model.createContext({
      sequences: batch,
      contextSize: job.promptTokens + job.genTokens + 1,
      batchSize: Math.max(512, batch),
      threads: { ideal: job.numThreads, min: job.numThreads },
      flashAttention: true,
    });
    const sequences = Array.from({ length: batch }, () => context.getSequence());
    // A short first round reads the weights into memory.
    await measure(sequences, { ...job, promptTokens: Math.min(16, job.promptTokens), genTokens: 2 }, 2 * batch);
    results.push(await measure(sequences, job, 2 * batch + 1));
    await context.dispose();
  }
  process.stdout.write(`${JSON.stringify({ results })}\n`);
}

await main(JSON.parse(process.argv[2] ?? "{}") as DriverJob);
process.exit(0);
