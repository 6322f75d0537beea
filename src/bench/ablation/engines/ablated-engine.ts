/** The interface to an engine under ablation: its layers, and how a server with some of them is started. One file per engine implements it. */
import type { Launch } from "../../run/launch.js";
import type { ServerShape } from "../../workload/scenarios.js";
import type { Layer } from "../variants.js";

export interface AblatedEngine {
  readonly foundation: readonly Layer[];
  /** @param speculation JSON of --speculative-config; undefined: speculation is not a layer */
  optimisations(speculation: string | undefined): readonly Layer[];
  /** JSON of --speculative-config, if the user gives none. */
  readonly speculation: string;
  launch(server: AblatedServer): Launch;
  /** Whether a start takes so long that a server stays up for all cells of its size; else each run starts its own. */
  readonly startsSlowly: boolean;
}

/** One variant's server. */
export interface AblatedServer {
  readonly name: string;
  /** A GGUF file, or a folder of safetensors files. */
  readonly modelPath: string;
  readonly numThreads: number;
  /** Bytes of keys and values for a token in 16 bits, which turn a cell's tokens into the same memory for all variants. */
  readonly kvBytesPerToken: number;
  /** Names of the variant's layers. */
  readonly layers: readonly string[];
  /** JSON of --speculative-config for the layer of speculation. */
  readonly speculation: string;
  /** The engine's own program; undefined: the name that its documentation has. */
  readonly program: string | undefined;
  /** Flags of the variant's layers, after those for the size. */
  flagsFor(shape: ServerShape): readonly string[];
}
