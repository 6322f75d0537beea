/** The specification of one model: its engine, its start, the number of its instances, and their cores and GPUs. */
import type { CommonEngineOptions, EngineName } from "./engine.js";
import type { UpstreamTarget } from "./upstream.js";

export interface ModelSpec {
  /**
   * The model's name in the fleet and in requests. Instances are called "<name>-0", "<name>-1", …, attached ones
   * "<name>-attached-0", ….
   */
  readonly name: string;
  readonly engine: EngineName;
  /** Program and first arguments. Default: the adapter's own. */
  readonly program?: readonly [string, ...string[]];
  readonly options: CommonEngineOptions;
  /** The engine's own flags. They follow the flags from `options`, so they win. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Address that instances bind to, usually 127.0.0.1. The fleet chooses the ports. */
  readonly host: string;
  /** Number of processes at the start; `Supervisor.setInstances` changes it. */
  readonly instances: number;
  /**
   * The CPUs of each core to divide among the instances. Instance 0 gets the first `coresPerInstance` cores, instance 1
   * the next ones; after the last core, the assignment starts over. A core with an empty list of CPUs pins no instance.
   */
  readonly cores?: readonly (readonly number[])[];
  /** Default: `cores` divided evenly by `instances`. */
  readonly coresPerInstance?: number;
  /** GPUs in the form of CUDA_VISIBLE_DEVICES (numbers, UUIDs or MIG names), divided like cores. */
  readonly gpus?: readonly string[];
  /** Default: `options.tensorParallelSize` times `options.dataParallelSize` times the pipeline's size, otherwise 1. */
  readonly gpusPerInstance?: number;
  /** Running servers that the fleet watches but never starts or stops. */
  readonly attach?: readonly UpstreamTarget[];
  /**
   * How to scale down: stop the process, or put it to sleep if the engine can (the process stays and frees its device
   * memory).
   */
  readonly scaleDown?: "stop" | "sleep";
  /** Time limit of a start. Default: 10 minutes. */
  readonly startTimeoutMs?: number;
  /** Time limit for running requests before their instance stops. Default: 30 s. */
  readonly drainTimeoutMs?: number;
  /** Time from SIGTERM to SIGKILL. Default: 10 s. */
  readonly stopTimeoutMs?: number;
}
