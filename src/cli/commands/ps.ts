/** `millrace ps`: the running servers on this machine. */

import { Command } from "commander";
import { formatBytes } from "../../core/quantities.js";
import type { ServerRecord } from "../../core/server-registry.js";
import { formatTable, jsonText } from "../output/format.js";

export function psCommand(): Command {
  return new Command("ps")
    .description("List the millrace servers running on this machine.")
    .option("--json", "print one JSON object")
    .action(runPs);
}

async function runPs({ json = false }: { readonly json?: boolean }): Promise<void> {
  const [{ runningServers }, { residentBytes }, { askForLoad }] = await Promise.all([
    import("../../core/server-registry.js"),
    import("../../fleet/scaling/memory.js"),
    import("../../core/server-load.js"),
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
  process.stdout.write(
    rows.length === 0 ? "no millrace server of this user is running\n" : `${formatTable([head, ...rows])}\n`,
  );
}

function aboutServer({ pid, url, models, kind, since }: ServerRecord): readonly string[] {
  return [String(pid), url, models.join(", "), kind, since.slice(0, 16).replace("T", " ")];
}
