/** Decodes with a whole model in a separate engine, and compares the result with the machine's bandwidth. */
import { DEFAULT_ENGINE_OPTIONS } from "../../engine/api/options.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { startEngine } from "../../engine/engine.js";
import { readGguf } from "../../formats/gguf/read.js";
import { type DecodeRoofline, measureDecodeRoofline } from "./decode-roofline.js";
import type { Probes } from "./probes.js";

/** @param modelPath a GGUF file */
export async function benchDecode(modelPath: string, numThreads: number, probes: Probes): Promise<DecodeRoofline> {
  const gguf = readGguf(modelPath);
  const engine = await startEngine({ ...DEFAULT_ENGINE_OPTIONS, speculative: NO_SPECULATION, modelPath, numThreads });
  try {
    return await measureDecodeRoofline(engine, gguf, probes);
  } finally {
    await engine.close();
  }
}
