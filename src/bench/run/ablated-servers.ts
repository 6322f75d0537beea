/**
 * Starts the server of an ablation's variant: our own engine's, or another engine's by its adapter, as the fleet would.
 */
import { ABLATED_ENGINES, type AblatedEngineName } from "../ablation/engines/index.js";
import { SPECULATION } from "../ablation/variants.js";
import type { ServerShape } from "../workload/scenarios.js";
import { engineServer } from "./engine-server.js";
import type { Launch } from "./launch.js";
import { millraceServer } from "./servers.js";

interface AblatedServer {
  /** The variant's name. */
  readonly name: string;
  /** A GGUF file, or a folder of safetensors files. */
  readonly modelPath: string;
  /** The model's name in requests, the same for all weights. */
  readonly modelName: string;
  readonly numThreads: number;
  /**
   * Bytes of keys and values for a token in 16 bits, which turn a cell's tokens into the same memory for all variants.
   */
  readonly kvBytesPerToken: number;
  /** Names of the variant's layers. */
  readonly layers: readonly string[];
  /** JSON of --speculative-config for the layer of speculation. */
  readonly speculation: string;
  /** The engine's own program; undefined: the name in its documentation. */
  readonly program: string | undefined;
  /** Flags of the variant's layers, after those for the size. */
  flagsFor(shape: ServerShape): readonly string[];
}

export const ablatedServer = (engine: AblatedEngineName, server: AblatedServer): Launch =>
  engine === "millrace" ? ownServer(server) : serverByAdapter(engine, server);

function ownServer(server: AblatedServer): Launch {
  const { name, modelPath, modelName, numThreads, kvBytesPerToken, layers, speculation, flagsFor } = server;
  const kvType = layers.includes("int8 KV") ? "int8" : "f16";
  const drafts = layers.includes(SPECULATION) ? speculation : '{"method":"none"}';
  return millraceServer(name, { path: modelPath, numThreads, kvBytesPerToken, kvType }, (shape) => [
    ...flagsFor(shape),
    "--speculative-config",
    drafts,
    "--served-model-name",
    modelName,
  ]);
}

/** vLLM's blocks have up to 128 tokens on CPUs, and it keeps one of them empty. */
const SPARE_KV_TOKENS = 256;

function serverByAdapter(engine: Exclude<AblatedEngineName, "millrace">, server: AblatedServer): Launch {
  const { kvBytesPerToken, layers, speculation, flagsFor } = server;
  const { sizeFlags } = ABLATED_ENGINES[engine];
  return engineServer(engine, {
    ...server,
    optionsFor: (shape) => ({
      ...(shape && { maxModelLen: shape.maxModelLen, maxNumSeqs: shape.seats }),
      // Other engines have their own flags for this.
      ...(shape && engine === "vllm" && { kvCacheMemoryBytes: (shape.kvTokens + SPARE_KV_TOKENS) * kvBytesPerToken }),
      ...(layers.includes(SPECULATION) && { speculativeConfig: JSON.parse(speculation) }),
    }),
    flagsFor: (shape) => (shape === undefined ? [] : [...(sizeFlags?.(shape) ?? []), ...flagsFor(shape)]),
  });
}
