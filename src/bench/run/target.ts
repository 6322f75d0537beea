/** A server to measure, already running or started for the benchmark, and the facts that the first run needs. */
import { basename } from "node:path";
import { MillraceError } from "../../core/errors.js";
import type { BenchTarget, ModelWork } from "../results/schema.js";
import type { ServerShape } from "../workload/scenarios.js";
import type { ProbedServer, ProbedVectors } from "../workload/traffic.js";
import { type Launch, type LaunchedServer, launchServer } from "./launch.js";
import { listModels, probeServer, type ServerAddress } from "./probe.js";

export interface ServerUnderTest {
  readonly name: string;
  /** Undefined: the server is launched. */
  readonly url?: string | undefined;
  readonly launch?: Launch | undefined;
  /** The model's name in requests; undefined: the first in the server's list. */
  readonly model?: string | undefined;
  readonly apiKey?: string | undefined;
  /** Process id of a local server, whose CPU time and memory are then reported. */
  readonly pid?: number | undefined;
  readonly timeoutMs: number;
  /** Finds the facts; absent: those of a server that generates text. */
  readonly probe?: (address: ServerAddress, signal: AbortSignal) => Promise<ProbedServer>;
  /** Name of another target with the same facts: this target only starts for its runs, which are void if it cannot. */
  readonly factsOf?: string | undefined;
}

/** A target that has answered. */
export interface LiveTarget {
  readonly name: string;
  readonly address: ServerAddress;
  readonly facts: ProbedServer;
  readonly version: string | undefined;
  /** Command of a started server, without paths. */
  readonly command: string | undefined;
  readonly pid: number | undefined;
  /** The work of a model whose file is on this machine. */
  readonly work: ModelWork | undefined;
  close(): Promise<void>;
}

/**
 * Throws peer_failed when the server cannot be started or measured.
 * @param signal aborted: throws, and nothing is left running
 * @param known facts of an earlier probe, which replace a new probe
 */
export async function openTarget(
  target: ServerUnderTest,
  shape: ServerShape | undefined,
  signal: AbortSignal,
  known?: ProbedServer,
): Promise<LiveTarget> {
  signal.throwIfAborted();
  const { name, launch, model, apiKey, timeoutMs, probe = probeServer } = target;
  const server: Partial<LaunchedServer> = launch === undefined ? {} : await launchServer(launch, shape, signal);
  const close = async () => server.stop?.();
  try {
    const url = (server.url ?? target.url)!.replace(/\/+$/, "").replace(/\/v1$/, "");
    const ownKey = apiKey ?? shape?.apiKeys?.[0];
    const key = ownKey === undefined ? {} : { authorization: `Bearer ${ownKey}` };
    const address = { url, headers: { "content-type": "application/json", ...key }, model, timeoutMs };
    const facts = known ?? (await probe(address, signal));
    const command = commandOf(launch, shape);
    const [version, pid] = [await versionOf(address), server.pid ?? target.pid];
    return { name, address, facts, version, command, pid, work: launch?.work, close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

/** A launched target with another target's facts, not started. */
export function unopenedTarget(target: ServerUnderTest, like: LiveTarget, shape: ServerShape | undefined): LiveTarget {
  const { name, launch } = target;
  return {
    ...like,
    name,
    command: commandOf(launch, shape),
    pid: undefined,
    work: launch?.work,
    close: async () => {},
  };
}

const commandOf = (launch: Launch | undefined, shape: ServerShape | undefined): string | undefined =>
  launch?.command(0, shape).map(withoutFolder).join(" ");

/** The target as the report describes it. @param first the report's first target */
export function aboutTarget({ name, facts, version, command, work }: LiveTarget, first: LiveTarget): BenchTarget {
  const { model, tokenIds, hasCompletions, maxModelLen, ignoresEos, tokensPerWord, vectors } = facts;
  return {
    // Reports have no paths of the machine.
    name,
    model: /^[./]|\.gguf$/.test(model) ? basename(model) : model,
    version,
    command,
    maxModelLen,
    ignoresEos,
    tokensPerWord,
    work,
    promptsAs: tokenIds.length > 0 ? "ids" : hasCompletions || vectors !== undefined ? "text" : "chat",
    ...(vectors === undefined ? {} : { leastCosine: leastCosine(vectors.ofTexts, first.facts.vectors!.ofTexts) }),
  };
}

/** The cosine of the two vectors that differ most; −1 where their lengths differ. */
function leastCosine(all: readonly (readonly number[])[], others: readonly (readonly number[])[]): number {
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  const cosines = all.map((a, i) => {
    const b = others[i]!;
    return a.length === b.length ? dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)) : -1;
  });
  return Math.min(...cosines);
}

/** Removes folders from a word that is a path, or JSON with paths. */
export const withoutFolder = (word: string): string => word.replace(/[^\s",=]*\//g, "");

/** The version that millrace and vLLM report. */
async function versionOf({ url }: ServerAddress): Promise<string | undefined> {
  try {
    const response = await fetch(`${url}/version`, { signal: AbortSignal.timeout(5000) });
    const { version } = (await response.json()) as { readonly version?: unknown };
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The abilities that all compared servers share, so that all get the same requests. Each server keeps its own token
 * lengths and ids.
 */
export function inCommon(all: readonly ProbedServer[]): ProbedServer[] {
  const every = (has: (facts: ProbedServer) => boolean) => all.every(has);
  const hasCompletions = every((facts) => facts.hasCompletions);
  const takesIds = hasCompletions && every((facts) => facts.tokenIds.length > 0);
  return all.map((facts) => ({
    ...facts,
    hasCompletions,
    hasChat: every((each) => each.hasChat),
    tokenIds: takesIds ? facts.tokenIds : [],
    ignoresEos: every((each) => each.ignoresEos),
    hasJsonMode: every((each) => each.hasJsonMode),
    vectors: facts.vectors && { ...facts.vectors, ...textsInCommon(all) },
  }));
}

/**
 * The same texts for all servers: words that are single tokens everywhere, in texts short enough for the server that
 * adds most.
 */
function textsInCommon(all: readonly ProbedServer[]): Pick<ProbedVectors, "words" | "overhead"> {
  const [first, ...others] = all.flatMap(({ vectors }) => vectors ?? []);
  const words = first!.words.filter((word) => others.every((other) => other.words.includes(word)));
  if (words.length > 0) return { words, overhead: Math.max(...all.map(({ vectors }) => vectors!.overhead)) };
  throw new MillraceError("peer_failed", "expected servers with some words that are one token in all, got none");
}

export async function isAlive(target: LiveTarget): Promise<boolean> {
  return (await listModels(target.address)) !== undefined;
}
