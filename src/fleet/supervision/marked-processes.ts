/** Finds the processes of an instance, workers and their workers too, by a mark that all of them inherit in their environment. */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

/** Value: <fleet>:<instance>:<start>. */
export const MARK_VARIABLE = "MILLRACE_FLEET";

const MAX_SWEEPS = 20;
const SWEEP_MS = 25;

/** Process ids; none where the system has no /proc. */
export async function markedProcesses(mark: string): Promise<readonly number[]> {
  const entry = Buffer.from(`${MARK_VARIABLE}=${mark}\0`);
  const names = await readdir("/proc").catch(() => []);
  const found = await Promise.all(
    names.map(async (name) => {
      if (!/^\d+$/.test(name)) return [];
      // Other users' processes cannot be read, and any may end meanwhile.
      const environment = await readFile(`/proc/${name}/environ`).catch(() => Buffer.alloc(0));
      return environment.includes(entry) ? [Number(name)] : [];
    }),
  );
  return found.flat();
}

/** Ends the group and whatever left it (some engines start their workers in groups of their own), until nothing is found any more. */
export async function killAll(groupId: number, mark: string): Promise<void> {
  signalGroup(groupId, "SIGKILL");
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    const pids = await markedProcesses(mark);
    if (pids.length === 0) return;
    for (const pid of pids) signalProcess(pid, "SIGKILL");
    await sleep(SWEEP_MS);
  }
}

/** To the group's leader and all that stayed with it. */
export function signalGroup(groupId: number, signal: NodeJS.Signals): void {
  signalProcess(-groupId, signal);
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already, which is what was wanted.
  }
}
