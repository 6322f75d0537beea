/** What the fleet is told of one model: which engine serves it, how it is started, how many instances there are, and where they run. */
import type { CommonEngineOptions, EngineName } from "./engine.js";
import type { UpstreamTarget } from "./upstream.js";

export interface ModelSpec {
  /** The fleet's name of the model, which clients send. Instances are called "<name>-0", "<name>-1", …; attached ones "<name>-attached-0", …. */
  readonly name: string;
  readonly engine: EngineName;
  /** Program and first arguments, where not the adapter's own. */
  readonly program?: readonly [string, ...string[]];
  readonly options: CommonEngineOptions;
  /** The engine's own flags, put behind those made of `options`, so that they win. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Address that instances bind to, usually 127.0.0.1; ports are chosen. */
  readonly host: string;
  /** Processes to start with; `Supervisor.setInstances` changes it. */
  readonly instances: number;
  /** CPUs of each core to divide among the instances: the first `coresPerInstance` cores are instance 0's, and so on, from the start again where they end. Cores without CPUs pin nobody. */
  readonly cores?: readonly (readonly number[])[];
  /** Default: the cores divided evenly by `instances`. */
  readonly coresPerInstance?: number;
  /** As CUDA_VISIBLE_DEVICES has them (numbers, UUIDs or MIG names), divided like cores. */
  readonly gpus?: readonly string[];
  /** Default: `options.tensorParallelSize`, else 1. */
  readonly gpusPerInstance?: number;
  /** Servers that run already: watched, never started or stopped. */
  readonly attach?: readonly UpstreamTarget[];
  /** How an instance that is not needed rests: ended, or asleep where the engine can (it keeps its process and gives its device memory back). */
  readonly scaleDown?: "stop" | "sleep";
  /** A start that takes longer has failed. Default: 10 minutes. */
  readonly startTimeoutMs?: number;
  /** How long running requests may take to finish before their instance is stopped. Default: 30 s. */
  readonly drainTimeoutMs?: number;
  /** How long SIGTERM may take before SIGKILL. Default: 10 s. */
  readonly stopTimeoutMs?: number;
}
