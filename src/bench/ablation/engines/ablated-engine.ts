/**
 * The interface to an engine under ablation: its layers, and the requirements of its servers. One file per engine
 * implements it.
 */
import { existsSync } from "node:fs";
import type { ServerShape } from "../../workload/scenarios.js";
import type { Layer } from "../variants.js";

export interface AblatedEngine {
  readonly foundation: readonly Layer[];
  /** @param speculation JSON of --speculative-config; undefined: speculation is not a layer */
  optimisations(speculation: string | undefined): readonly Layer[];
  /** JSON of --speculative-config, if the user gives none. */
  readonly speculation: string;
  /** Whether a start takes so long that a server stays up for all cells of its size; else each run starts its own. */
  readonly startsSlowly: boolean;
  /** Flags for the size of the KV memory, if the engine's adapter has no option for it. */
  sizeFlags?(shape: ServerShape): readonly string[];
}

/** Whether this machine has a GPU of NVIDIA or AMD. */
export const hasAccelerator = (): boolean => ["/dev/nvidiactl", "/dev/kfd"].some((path) => existsSync(path));
