/**
 * The running servers on this machine: one small file each, which the server removes at its end. Files of killed
 * servers
 * are cleared away.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { cacheFolder } from "./cache-folder.js";

const RECORD = z.object({
  pid: z.int().positive(),
  /** Start time of the process according to the system: distinguishes it from a later one with the same number. */
  processStart: z.string().optional(),
  host: z.string(),
  url: z.string(),
  models: z.array(z.string()).readonly(),
  /** Texts that name the files it serves: paths, names on the hub. Absent for servers of earlier versions. */
  uses: z.array(z.string()).readonly().optional(),
  kind: z.enum(["engine", "fleet"]),
  since: z.string(),
  version: z.string(),
});

export type ServerRecord = z.infer<typeof RECORD>;
export type ServerFacts = Pick<ServerRecord, "url" | "models" | "uses" | "kind" | "version">;

function registryFolder(cacheDir: string): string {
  return join(cacheDir, "servers");
}

/** Clock ticks since the machine's start, from the system's table; undefined if it has none. */
function processStartOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The process name may hold anything, even closing brackets; the 20th field after it is the start.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

/**
 * Registers this process as a server. If the entry cannot be written, the server runs without one.
 *
 * @returns a function that removes the entry; the end of the process removes it too
 */
export function registerServer(facts: ServerFacts, cacheDir = cacheFolder()): () => void {
  const path = join(registryFolder(cacheDir), `${hostname()}-${process.pid}.json`);
  const remove = (): void => {
    process.off("exit", remove);
    rmSync(path, { force: true });
  };
  const record: ServerRecord = {
    pid: process.pid,
    processStart: processStartOf(process.pid),
    host: hostname(),
    url: facts.url,
    models: facts.models,
    uses: facts.uses,
    kind: facts.kind,
    since: new Date().toISOString(),
    version: facts.version,
  };
  try {
    mkdirSync(registryFolder(cacheDir), { recursive: true });
    // Without this, files of killed servers would pile up on machines where servers are never listed.
    runningServers(cacheDir);
    writeFileSync(`${path}.new`, `${JSON.stringify(record)}\n`);
    renameSync(`${path}.new`, path);
    process.once("exit", remove);
  } catch {
    return () => {};
  }
  return remove;
}

function readRecord(path: string): ServerRecord | undefined {
  try {
    return RECORD.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** This machine's running servers, oldest first. Records of other machines in a shared cache stay untouched. */
export function runningServers(cacheDir = cacheFolder()): readonly ServerRecord[] {
  const folder = registryFolder(cacheDir);
  const records: ServerRecord[] = [];
  for (const name of namesIn(folder).filter((each) => each.endsWith(".json"))) {
    const path = join(folder, name);
    const record = readRecord(path);
    if (record === undefined || record.host !== hostname()) continue;
    const { pid, processStart } = record;
    const isSame = processStart === undefined || processStartOf(pid) === processStart;
    if (isAlive(pid) && isSame) records.push(record);
    else rmSync(path, { force: true });
  }
  return records.sort((a, b) => a.since.localeCompare(b.since));
}
