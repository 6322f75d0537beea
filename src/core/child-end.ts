/** Ends child processes, with their own children, at the latest when this process ends. */
import type { ChildProcess } from "node:child_process";

/** Kills the child if this process exits first. @param signal SIGTERM for a child that ends its own children */
export function endingWithUs<Child extends ChildProcess>(child: Child, signal: NodeJS.Signals = "SIGKILL"): Child {
  const kill = () => killGroup(child, signal);
  process.once("exit", kill);
  child.once("close", () => process.off("exit", kill));
  return child;
}

/** Signals a child and, if it leads a process group, the processes that it started. */
export function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  child.kill(signal);
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // The group is gone, or the child is in ours.
  }
}
