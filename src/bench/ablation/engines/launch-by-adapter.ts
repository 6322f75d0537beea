/** Starts a variant's server as the fleet would, by the engine's adapter. */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { ADAPTERS } from "../../../fleet/adapters/index.js";
import type { EngineName } from "../../../fleet/upstream/engine.js";
import type { Launch } from "../../run/launch.js";
import { modelWork } from "../../run/model-work.js";
import type { ServerShape } from "../../workload/scenarios.js";
import { flags, SPECULATION } from "../variants.js";
import type { AblatedServer } from "./ablated-engine.js";

/** Whether this machine has a GPU of NVIDIA or AMD. */
export const hasAccelerator = (): boolean => ["/dev/nvidiactl", "/dev/kfd"].some((path) => existsSync(path));

/** vLLM's blocks have up to 128 tokens on CPUs, and it keeps one of them empty. */
const SPARE_KV_TOKENS = 256;

/** @param sizeFlags flags for the size of the KV memory, if the adapter has no option for it */
export function launchByAdapter(
  engine: EngineName,
  server: AblatedServer,
  sizeFlags: (shape: ServerShape) => readonly string[] = flags(),
): Launch {
  const { name, modelPath, numThreads, kvBytesPerToken, layers, speculation, program: own, flagsFor } = server;
  const adapter = ADAPTERS[engine];
  const [usual, ...rest] = adapter.program!;
  const program = [own ?? usual!, ...rest] as const;
  const planOf = (port: number, shape: ServerShape | undefined) => {
    const size = shape && {
      maxModelLen: shape.maxModelLen,
      maxNumSeqs: shape.seats,
      // llama-server's memory follows from its slots and their length.
      ...(engine === "vllm" && { kvCacheMemoryBytes: (shape.kvTokens + SPARE_KV_TOKENS) * kvBytesPerToken }),
    };
    const drafts = layers.includes(SPECULATION) && { speculativeConfig: JSON.parse(speculation) };
    const options = { model: modelPath, servedModelName: "model", threads: numThreads, ...size, ...drafts };
    const place = { host: "127.0.0.1", port, sparePorts: [0, 0], folder: tmpdir() } as const;
    return adapter.launch(options, program, place, undefined);
  };
  return {
    name,
    work: modelWork(modelPath),
    command: (port, shape) => [
      ...planOf(port, shape).command,
      ...(shape === undefined ? [] : [...sizeFlags(shape), ...flagsFor(shape)]),
    ],
    env: planOf(0, undefined).env,
    startSeconds: 900,
    stopSeconds: 20,
  };
}
