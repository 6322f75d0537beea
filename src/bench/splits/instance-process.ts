/** A process that measures one instance while others run: it receives one job over IPC, sends one reply and ends. */
import { toMillraceError } from "../../core/errors.js";
import type { EngineOptions } from "../../engine/api/options.js";
import { startEngine } from "../../engine/engine.js";
import { benchEngine, type EngineBenchResult, type EngineBenchSpec } from "../engine/engine-bench.js";

export interface InstanceJob {
  readonly options: EngineOptions;
  readonly spec: EngineBenchSpec;
}

export type InstanceReply = { readonly result: EngineBenchResult } | { readonly problem: string };

async function measure({ options, spec }: InstanceJob): Promise<InstanceReply> {
  try {
    const engine = await startEngine(options);
    try {
      const [result] = await benchEngine(engine, spec, () => {});
      return { result: result! };
    } finally {
      await engine.close();
    }
  } catch (thrown) {
    return { problem: toMillraceError(thrown).message };
  }
}

process.on("message", async (job: InstanceJob) => {
  const reply = await measure(job);
  process.send?.(reply, () => process.exit(0));
});
// The process ignores Ctrl-C, because the parent decides when it ends.
process.on("SIGINT", () => {});
process.on("disconnect", () => process.exit(1));
