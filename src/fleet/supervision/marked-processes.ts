/**
 * Finds all processes of an instance, including workers of workers, by a mark that they inherit in their environment.
 */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

/** Environment variable with the value <fleet>:<instance>:<start>. */
export const MARK_VARIABLE = "MILLRACE_FLEET";

const MAX_SWEEPS = 20;
const SWEEP_MS = 25;

/** Ids of the marked processes; empty on systems without /proc. */
export async function markedProcesses(mark: string): Promise<readonly number[]> {
  const entry = Buffer.from(`${MARK_VARIABLE}=${mark}\0`);
  const names = await readdir("/proc").catch(() => []);
  const found = await Promise.all(
    names.map(async (name) => {
      if (!/^\d+$/.test(name)) return [];
      // Other users' processes are unreadable, and any process may end meanwhile.
      const environment = await readFile(`/proc/${name}/environ`).catch(() => Buffer.alloc(0));
      return environment.includes(entry) ? [Number(name)] : [];
    }),
  );
  return found.flat();
}

/**
 * Kills the group and the marked processes that left it (some engines start workers in their own groups), until none is
 * left.
 */
export async function killAll(groupId: number, mark: string): Promise<void> {
  signalGroup(groupId, "SIGKILL");
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    const pids = await markedProcesses(mark);
    if (pids.length === 0) return;
    for (const pid of pids) signalProcess(pid, "SIGKILL");
    await sleep(SWEEP_MS);
  }
}

/** Sends a signal to the leader and all members of a process group. */
export function signalGroup(groupId: number, signal: NodeJS.Signals): void {
  signalProcess(-groupId, signal);
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The process has already ended.
  }
}
