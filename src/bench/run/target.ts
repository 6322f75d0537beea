/** What is measured: a server that runs, or one that is started for it; and what must be known of it before anything is. */
import { basename } from "node:path";
import type { BenchTarget, ModelWork } from "../results/schema.js";
import type { ServerShape } from "../workload/scenarios.js";
import type { ProbedServer } from "../workload/traffic.js";
import { type Launch, type LaunchedServer, launchServer } from "./launch.js";
import { listModels, probeServer, type ServerAddress } from "./probe.js";

export interface ServerUnderTest {
  readonly name: string;
  /** Undefined: it is launched. */
  readonly url?: string | undefined;
  readonly launch?: Launch | undefined;
  /** The name that requests carry; undefined: the first one listed. */
  readonly model?: string | undefined;
  readonly apiKey?: string | undefined;
  /** Of a local server, whose CPU time and memory are then told. */
  readonly pid?: number | undefined;
  readonly timeoutMs: number;
}

/** A target that answers. */
export interface LiveTarget {
  readonly name: string;
  readonly address: ServerAddress;
  readonly facts: ProbedServer;
  readonly version: string | undefined;
  /** Of a server that was started for it, without paths. */
  readonly command: string | undefined;
  readonly pid: number | undefined;
  /** Of a model whose file is at hand. */
  readonly work: ModelWork | undefined;
  close(): Promise<void>;
}

/**
 * Throws peer_failed when it cannot be started or measured.
 * @param signal aborted: throws too, and nothing is left running
 * @param known what probing has shown before: it is not probed again
 */
export async function openTarget(
  target: ServerUnderTest,
  shape: ServerShape | undefined,
  signal: AbortSignal,
  known?: ProbedServer,
): Promise<LiveTarget> {
  signal.throwIfAborted();
  const { name, launch, model, apiKey, timeoutMs } = target;
  const server: Partial<LaunchedServer> = launch === undefined ? {} : await launchServer(launch, shape, signal);
  const close = async () => server.stop?.();
  try {
    const url = (server.url ?? target.url)!.replace(/\/+$/, "").replace(/\/v1$/, "");
    const ownKey = apiKey ?? shape?.apiKeys?.[0];
    const key = ownKey === undefined ? {} : { authorization: `Bearer ${ownKey}` };
    const address = { url, headers: { "content-type": "application/json", ...key }, model, timeoutMs };
    const facts = known ?? (await probeServer(address, signal));
    const command = launch?.command(0, shape).map(withoutFolder).join(" ");
    const [version, pid] = [await versionOf(address), server.pid ?? target.pid];
    return { name, address, facts, version, command, pid, work: launch?.work, close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

/** What the report says of it. */
export function aboutTarget({ name, facts, version, command, work }: LiveTarget): BenchTarget {
  const { model, tokenIds, hasCompletions, maxModelLen, ignoresEos, tokensPerWord } = facts;
  return {
    // Where things lie on the machine is nobody's business who reads the results.
    name,
    model: /^[./]|\.gguf$/.test(model) ? basename(model) : model,
    version,
    command,
    maxModelLen,
    ignoresEos,
    tokensPerWord,
    work,
    promptsAs: tokenIds.length > 0 ? "ids" : hasCompletions ? "text" : "chat",
  };
}

/** Of a word that is a path, or JSON that has some. */
const withoutFolder = (word: string): string => word.replace(/[^\s",=]*\//g, "");

/** As millrace and vLLM tell it. */
async function versionOf({ url }: ServerAddress): Promise<string | undefined> {
  try {
    const response = await fetch(`${url}/version`, { signal: AbortSignal.timeout(5000) });
    const { version } = (await response.json()) as { readonly version?: unknown };
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}

/** What servers that are compared can all be asked for in the same way; how long a token is, and which ids there are, stays each one's own. */
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
  }));
}

export async function isAlive(target: LiveTarget): Promise<boolean> {
  return (await listModels(target.address)) !== undefined;
}
