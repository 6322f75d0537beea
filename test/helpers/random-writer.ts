/**
 * A tiny random model that writes under grammars, in process: it knows nothing, so what it gets right is the grammar's
 * doing.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Backend } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { readTokenBytes } from "../../src/engine/constraint/token-bytes.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { SPECIAL_BYTE } from "../../src/text/grammar/markers.js";
import { recipeOf } from "./constraint.js";
import { type Completion, collect, request } from "./engine-requests.js";
import { type RandomModelOptions, writeRandomModel } from "./random-model.js";

interface WritingTask {
  /** undefined: anything. */
  readonly grammar: string | undefined;
  readonly seed: number;
}

interface Written {
  readonly text: string;
  /** Its length ended it. */
  readonly isCut: boolean;
}

interface RandomWriterOptions {
  readonly seed: number;
  readonly maxTokens: number;
  readonly markers?: NonNullable<RandomModelOptions["markers"]>;
  /** Of tokens by the bytes of their text, each as a character: a random model hardly ever closes what it opens. */
  readonly biases: Readonly<Record<string, number>>;
}

/** @example await using writer = await RandomWriter.create({ seed: 1, maxTokens: 100, biases: { "}": 5 } }); */
export class RandomWriter implements AsyncDisposable {
  readonly #folder: string;
  readonly #backend: Backend;
  readonly #options: RandomWriterOptions;
  readonly #stopTokenIds: readonly number[];
  readonly #texts: readonly Uint8Array[];
  readonly #logitBias: readonly (readonly [number, number])[];

  static async create(options: RandomWriterOptions): Promise<RandomWriter> {
    const { seed, markers } = options;
    const folder = mkdtempSync(join(tmpdir(), "millrace-writer-"));
    const path = join(folder, "model.gguf");
    const facts = { architecture: "llama", seed, contextLength: 1024 } as const;
    const model = writeRandomModel(path, { ...facts, ...(markers === undefined ? {} : { markers }) });
    const backend = createCpuBackend({ numThreads: 1 });
    const shape = { modelPath: path, numThreads: 1, maxNumSeqs: 32, kvCacheMemoryBytes: 2 ** 26 };
    const engineOptions = { ...DEFAULT_ENGINE_OPTIONS, ...shape };
    const core = await EngineCore.create(openModel(path), engineOptions, backend);
    return new RandomWriter(options, core, backend, folder, model.eosTokenId);
  }

  private constructor(
    options: RandomWriterOptions,
    readonly core: EngineCore,
    backend: Backend,
    folder: string,
    eosTokenId: number,
  ) {
    this.#options = options;
    this.#backend = backend;
    this.#folder = folder;
    const path = join(folder, "model.gguf");
    const { biases } = options;
    this.#stopTokenIds = [eosTokenId];
    this.#texts = readTokenBytes(path).bytes.map((bytes) => (bytes[0] === SPECIAL_BYTE ? bytes.subarray(1) : bytes));
    this.#logitBias = this.#texts.flatMap((bytes, id) => {
      const bias = biases[Buffer.from(bytes).toString("latin1")];
      return bias === undefined ? [] : [[id, bias] as const];
    });
  }

  /** All at once, at temperature 1. What is not UTF-8 becomes U+FFFD. */
  async write(tasks: readonly WritingTask[]): Promise<readonly Written[]> {
    const { maxTokens } = this.#options;
    tasks.forEach(({ grammar, seed }, index) => {
      const rest = { stopTokenIds: this.#stopTokenIds, logitBias: this.#logitBias };
      const sampling = { temperature: 1, seed: BigInt(seed), maxTokens, ...rest };
      const constraint = grammar === undefined ? {} : { constraint: { recipe: recipeOf(grammar) } };
      this.core.add(index + 1, { ...request([1, 2, 3], sampling), ...constraint });
    });
    const completions = new Map<number, Completion>();
    while (this.core.hasWork) {
      for (const { requestId, output } of await this.core.step()) collect(completions, requestId, output);
      for (const { error } of this.core.takeFailures()) throw error;
    }
    return tasks.map((_, index) => this.#read(completions.get(index + 1)!));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.core.close();
    this.#backend.destroy();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #read({ tokenIds, finishReason }: Completion): Written {
    const text = Buffer.concat(tokenIds.map((id) => this.#texts[id]!)).toString("utf8");
    return { text, isCut: finishReason === "length" };
  }
}
