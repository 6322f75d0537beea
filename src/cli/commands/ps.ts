/** `millrace ps`: the servers that run on this machine. */

import { Command } from "commander";
import { formatBytes } from "../../core/quantities.js";
import type { ServerRecord } from "../../core/server-registry.js";
import { formatTable, jsonText } from "../output/format.js";

/** A server that is busy, or stopped, is listed all the same. */
const ANSWER_TIMEOUT_MS = 1000;

interface Load {
  readonly running: number;
  readonly waiting: number;
}

export function psCommand(): Command {
  return new Command("ps")
    .description("List the millrace servers that run on this machine.")
    .option("--json", "print one JSON object")
    .action(runPs);
}

/** Of all instances together. */
export function loadIn(metrics: string): Load {
  const sumOf = (name: string): number =>
    metrics
      .split("\n")
      .filter((line) => line.startsWith(`millrace:${name}{`) || line.startsWith(`millrace:${name} `))
      .reduce((sum, line) => sum + (Number(line.slice(line.lastIndexOf(" ") + 1)) || 0), 0);
  return { running: sumOf("num_requests_running"), waiting: sumOf("num_requests_waiting") };
}

async function askForLoad(url: string): Promise<Load | undefined> {
  // An address that stands for all of them is no address to ask.
  const address = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
  try {
    const answer = await fetch(`${address}/metrics`, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    return answer.ok ? loadIn(await answer.text()) : undefined;
  } catch {
    return undefined;
  }
}

async function runPs({ json = false }: { readonly json?: boolean }): Promise<void> {
  const [{ runningServers }, { residentBytes }] = await Promise.all([
    import("../../core/server-registry.js"),
    import("../../fleet/scaling/memory.js"),
  ]);
  const servers = await Promise.all(
    runningServers().map(async (server) => {
      return { server, memoryBytes: residentBytes(server.pid), load: await askForLoad(server.url) };
    }),
  );
  if (json) {
    const records = servers.map(({ server, memoryBytes, load }) => ({ ...server, memoryBytes, load }));
    process.stdout.write(`${jsonText({ servers: records })}\n`);
    return;
  }
  const rows = servers.map(({ server, memoryBytes, load }) => [
    ...aboutServer(server),
    memoryBytes === undefined ? "?" : formatBytes(memoryBytes),
    load === undefined ? "no answer" : `${load.running} running, ${load.waiting} waiting`,
  ]);
  const head = ["pid", "url", "model", "kind", "since (UTC)", "memory", "requests"];
  process.stdout.write(rows.length === 0 ? "no server of this user runs here\n" : `${formatTable([head, ...rows])}\n`);
}

function aboutServer({ pid, url, models, kind, since }: ServerRecord): readonly string[] {
  return [String(pid), url, models.join(", "), kind, since.slice(0, 16).replace("T", " ")];
}
