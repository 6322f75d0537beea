/** Starts another engine's server by its adapter, as the fleet would. */
import { tmpdir } from "node:os";
import { ADAPTERS } from "../../fleet/adapters/index.js";
import type { CommonEngineOptions } from "../../fleet/upstream/engine.js";
import type { AblatedEngineName } from "../ablation/engines/index.js";
import type { ServerShape } from "../workload/scenarios.js";
import type { Launch } from "./launch.js";
import { modelWork } from "./model-work.js";

interface EngineServer {
  /** The target's name. */
  readonly name: string;
  /** A GGUF file, or a folder of safetensors files. */
  readonly modelPath: string;
  /** The model's name in requests. */
  readonly modelName: string;
  readonly numThreads: number;
  /** The engine's own program; undefined: the name in its documentation. */
  readonly program: string | undefined;
  /** Options of the adapter besides these. */
  optionsFor(shape: ServerShape | undefined): Partial<CommonEngineOptions>;
  /** Flags after those of the options. */
  flagsFor(shape: ServerShape | undefined): readonly string[];
}

export function engineServer(engine: Exclude<AblatedEngineName, "millrace">, server: EngineServer): Launch {
  const { name, modelPath, modelName, numThreads, program: own, optionsFor, flagsFor } = server;
  const adapter = ADAPTERS[engine];
  const [usual, ...rest] = adapter.program!;
  const program = [own ?? usual!, ...rest] as const;
  const planOf = (port: number, shape: ServerShape | undefined) => {
    const options = { model: modelPath, servedModelName: modelName, threads: numThreads, ...optionsFor(shape) };
    const place = { host: "127.0.0.1", port, sparePorts: [0, 0], folder: tmpdir() } as const;
    return adapter.launch(options, program, place, undefined);
  };
  return {
    name,
    work: modelWork(modelPath),
    command: (port, shape) => [...planOf(port, shape).command, ...flagsFor(shape)],
    env: planOf(0, undefined).env,
    startSeconds: 900,
    stopSeconds: 20,
  };
}
