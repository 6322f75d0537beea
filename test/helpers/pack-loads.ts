/** Starts of models through a cache of packed weights. */
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PackCacheOptions } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import type { TensorType } from "../../src/formats/gguf/types.js";
import { openModel } from "../../src/model/open-model.js";
import { request, runAlone } from "./engine-requests.js";
import { writeRandomModel } from "./random-model.js";

/** Bytes that hold every model of these tests, in a cache or in memory. */
export const PLENTY_BYTES = 2 ** 30;

/** Writes a model just above the size from which packs are kept unless a start says otherwise. */
export function writeLargeModel(path: string): void {
  const shape = { architecture: "llama", seed: 3, type: "MXFP4", width: 1024, ff: 4096, heads: 8 } as const;
  writeRandomModel(path, { ...shape, layers: 9, vocab: 384 });
}

/** Writes a model of a megabyte or a few, which `loadThrough` keeps as it keeps a large one. */
export function writeSmallModel(path: string, type: TensorType = "MXFP4"): void {
  const shape = { architecture: "llama", seed: 3, type, width: 256, ff: 1024, heads: 8 } as const;
  writeRandomModel(path, { ...shape, layers: 3, vocab: 384 });
}

/** Makes a temporary folder with such a model. */
export function folderWith(write: (path: string) => void): { readonly root: string; readonly model: string } {
  const root = mkdtempSync(join(tmpdir(), "millrace-packs-"));
  const model = join(root, "model.gguf");
  write(model);
  return { root, model };
}

export interface Load {
  readonly tokens: readonly number[];
  readonly stages: readonly string[];
  readonly notes: readonly string[];
}

/** Loads a model, whose pack is kept whatever its size unless the options say otherwise, and takes a few tokens. */
export async function loadThrough(options: PackCacheOptions, path: string, freeBytes = PLENTY_BYTES): Promise<Load> {
  const backend = createCpuBackend({ numThreads: 2, packCache: { minModelBytes: 0, ...options }, freeBytes });
  const stages: string[] = [];
  const notes: string[] = [];
  try {
    const own = { modelPath: path, numThreads: 2, maxModelLen: 64 };
    const core = await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...own }, backend, {
      progress: (stage) => stages.push(stage),
      note: (text) => notes.push(text),
    });
    const { tokenIds } = await runAlone(core, request(Int32Array.of(5, 6, 7), { maxTokens: 8 }));
    return { tokens: tokenIds, stages, notes };
  } finally {
    backend.destroy();
  }
}

export const wasPacked = ({ stages }: Load): boolean => stages.includes("packing the weights");

export const packsIn = (folder: string): string[] => readdirSync(folder).filter((name) => name.endsWith(".pack"));
