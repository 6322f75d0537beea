/**
 * The interface to an engine: how to start it, check it, read its metrics and put it to sleep. One file per engine
 * implements it.
 */

import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { CommonEngineOptions, EngineMetrics, EngineName } from "../upstream/engine.js";
import type { CacheEventSockets, Capacity, UpstreamTarget } from "../upstream/upstream.js";

/** Address, ports and folder that the fleet chose for one start. */
export interface LaunchPlace {
  readonly host: string;
  readonly port: number;
  /** Two more free ports, for engines that use some internally. */
  readonly sparePorts: readonly [number, number];
  /** The instance's own folder, for the files it needs. */
  readonly folder: string;
  /** Path of the result of `Adapter.build`. */
  readonly built?: string;
  /** The fleet follows the engine's prefix cache, so the engine publishes its changes if it can. */
  readonly followsCache?: boolean;
}

export interface LaunchPlan {
  /** Program and arguments. */
  readonly command: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  /** The engine creates files in `LaunchPlace.folder`, so the folder must exist. */
  readonly needsFolder?: boolean;
  /** Text of the files to write before the start (an engine's YAML), by the path that the command names. */
  readonly files?: Readonly<Record<string, string>>;
  /** The model name that the started engine answers to; undefined: any name. */
  readonly modelName: string | undefined;
  /** Where the started engine publishes the changes of its prefix cache. */
  readonly cacheEvents?: CacheEventSockets;
  /** Sentences for the log about options that this engine has no flag for. */
  readonly notices: readonly string[];
}

/** Turns a model into the files that the engine loads. Results are kept and shared: supervision/build-cache.ts. */
export interface EngineBuild {
  /** Its output contains the builder's version, whatever its exit code. */
  readonly versionCommand: Command;
  /** Run in order; the engine loads the last step's result. */
  readonly steps: readonly BuildStep[];
}

interface BuildStep {
  readonly name: string;
  /** @param source the model, or the folder with the result of the step before */
  command(source: string, into: string): Command;
  /** Names of files that a complete result has. */
  readonly files: readonly string[];
}

type Command = readonly [string, ...string[]];

export interface Adapter {
  readonly name: EngineName;
  /** Command whose output shows the flag names of the installed version; absent if the names never changed. */
  readonly helpCommand?: (program: readonly [string, ...string[]]) => readonly [string, ...string[]];
  /** Default program; undefined if the engine can only be attached. */
  readonly program: readonly [string, ...string[]] | undefined;
  /** Turns the model into files for the engine. Absent, or returns undefined: the engine loads the model as it is. */
  readonly build?: (options: CommonEngineOptions) => EngineBuild | undefined;
  /** @param help output of `helpCommand`; undefined if the command failed or is absent */
  launch(
    options: CommonEngineOptions,
    program: readonly [string, ...string[]],
    where: LaunchPlace,
    help: string | undefined,
  ): LaunchPlan;
  /** GET returns 200 when the engine takes requests. */
  readonly healthPath: string;
  /** Path of the Prometheus metrics; undefined: the engine has none. */
  readonly metricsPath: string | undefined;
  /**
   * Follows the prefix cache of a running engine: yields its blocks after each change, throws when it loses track, and
   * ends without yielding if the engine does not report blocks. Absent: no version does, so routing guesses.
   */
  readonly followCache?: (target: UpstreamTarget, signal: AbortSignal) => AsyncIterable<CachedBlocks>;
  /**
   * How a request names the cached prefixes it may use: by our header, or by `cache_salt` on the listed paths. An empty
   * list: requests cannot name any.
   */
  readonly cacheScope: "header" | readonly string[];
  /**
   * With `enablePrefixCaching: false` the engine caches no prefix, even if a request asks for it. Absent: it may still
   * cache some.
   */
  readonly turnsCacheOff?: true;
  /**
   * Whether this method drafts from the earlier requests of all tenants. Absent: never, or only within one cache scope.
   */
  readonly sharesDrafts?: (config: NonNullable<CommonEngineOptions["speculativeConfig"]>) => boolean;
  parseMetrics(text: string): EngineMetrics;
  /** Called once, after the instance became ready. Figures that the engine does not report are undefined. */
  capacity(target: UpstreamTarget, signal: AbortSignal): Promise<Capacity>;
  /** Frees the device memory, and takes it again on `wake`, while the process keeps running. */
  readonly sleep?: (target: UpstreamTarget, signal: AbortSignal) => Promise<void>;
  readonly wake?: (target: UpstreamTarget, signal: AbortSignal) => Promise<void>;
  /** Cancels a request in the engine, where closing its connection is not enough. */
  readonly abort?: (target: UpstreamTarget, requestId: string) => Promise<void>;
}
