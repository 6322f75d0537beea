/** What the fleet must know of an engine: how it is started, when it is ready, what it measures and how it rests. One file per engine implements it. */
import type { CommonEngineOptions, EngineMetrics, EngineName } from "../upstream/engine.js";
import type { Capacity, UpstreamTarget } from "../upstream/upstream.js";

/** What the fleet chose for one start. */
export interface LaunchPlace {
  readonly host: string;
  readonly port: number;
  /** Two more free ones, for engines that need them inside. */
  readonly sparePorts: readonly [number, number];
  /** The instance's own, for files it needs. */
  readonly folder: string;
}

export interface LaunchPlan {
  /** Program and arguments. */
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  /** It makes files of its own in the folder of its place, which is to be there. */
  readonly needsFolder?: boolean;
  /** Files to write before the start (an engine's YAML), by the path the command names. */
  readonly files?: Readonly<Record<string, string>>;
  /** What it then answers to; undefined: any name. */
  readonly modelName: string | undefined;
  /** Options this engine has no flag for, as sentences for the log. */
  readonly notices: readonly string[];
}

export interface Adapter {
  readonly name: EngineName;
  /** Whose output tells which flag names this version has; undefined: the names never changed. */
  readonly helpCommand?: (program: readonly [string, ...string[]]) => readonly [string, ...string[]];
  /** Program started where the configuration names none; undefined: can only be attached. */
  readonly program: readonly [string, ...string[]] | undefined;
  /** @param help output of `helpCommand`; undefined: not asked, or it failed */
  launch(
    options: CommonEngineOptions,
    program: readonly [string, ...string[]],
    where: LaunchPlace,
    help: string | undefined,
  ): LaunchPlan;
  /** GET answers 200 when requests are taken. */
  readonly healthPath: string;
  /** Undefined: the engine has no metrics. */
  readonly metricsPath: string | undefined;
  /** GET streams what the prefix cache holds, as our own engine does; absent: routing guesses. */
  readonly kvEventsPath?: string;
  /** How it is told whose cached prefixes a request may use: by our header, or by the field `cache_salt` of these paths. None: not at all. */
  readonly cacheScope: "header" | readonly string[];
  /** Started with `enablePrefixCaching: false` it keeps no prefix, whatever requests ask. Absent: it may. */
  readonly turnsCacheOff?: true;
  /** Whether drafts made so come from all earlier requests, whoever sent them. Absent: they never do, or each scope has its own. */
  readonly sharesDrafts?: (config: NonNullable<CommonEngineOptions["speculativeConfig"]>) => boolean;
  parseMetrics(text: string): EngineMetrics;
  /** Asked once after ready; what is not said stays undefined. */
  capacity(target: UpstreamTarget, signal: AbortSignal): Promise<Capacity>;
  /** Gives device memory back, and takes it again, without ending the process. */
  readonly sleep?: (target: UpstreamTarget, signal: AbortSignal) => Promise<void>;
  readonly wake?: (target: UpstreamTarget, signal: AbortSignal) => Promise<void>;
  /** What ends a request's work in the engine, beside closing its connection. */
  readonly abort?: (target: UpstreamTarget, requestId: string) => Promise<void>;
}
