/**
 * Ensures that no engine outlives the server, even after kill -9. A shell in its own session waits on a pipe from the
 * server. The system closes the pipe when the server ends; the shell then kills the listed process groups and, on
 * Linux,
 * all other processes with the fleet's mark.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { MARK_VARIABLE } from "./marked-processes.js";

/**
 * Each line of input lists all current groups; the last line counts. The search repeats until it finds no process,
 * since processes may fork in between.
 */
const SCRIPT = `
trap '' HUP INT QUIT TERM
groups=
while read -r line; do groups=$line; done
for group in $groups; do kill -9 "-$group" 2>/dev/null; done
for sweep in 1 2 3 4 5 6 7 8 9 10; do
  found=$(grep -ls -- "$1" /proc/[0-9]*/environ 2>/dev/null)
  [ -n "$found" ] || exit 0
  for file in $found; do pid=\${file#/proc/}; kill -9 "\${pid%/environ}" 2>/dev/null; done
done
`;

export class OrphanGuard {
  /** Prefix of the marks of all processes in this fleet. */
  readonly fleetId = randomUUID();
  readonly #groups = new Set<number>();
  #shell: ChildProcess | undefined;
  #isClosed = false;
  #hasWarned = false;

  /** @param onNotice receives a sentence for the log if the system cannot guarantee the end of all engines */
  constructor(
    private readonly onNotice: (text: string) => void,
    private readonly platform: string = process.platform,
  ) {}

  /** Call it before the first process starts. */
  start(): void {
    if (this.#shell !== undefined || this.#isClosed) return;
    if (this.platform !== "linux" && !this.#hasWarned) {
      this.#hasWarned = true;
      this.onNotice("workers that leave their engine's process group may outlive it: only on Linux can they be found");
    }
    const shell = spawn("/bin/sh", ["-c", SCRIPT, "sh", `${MARK_VARIABLE}=${this.fleetId}:`], {
      // In its own session, the shell does not get the terminal's Ctrl-C.
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#shell = shell;
    // A broken pipe means that the shell has ended; `exit` handles that.
    shell.stdin?.on("error", () => {});
    shell.once("error", (error) =>
      this.onNotice(`engines would outlive a killed server: expected /bin/sh to start, got ${error.message}`),
    );
    shell.once("exit", () => {
      this.#shell = undefined;
      this.start();
    });
    shell.unref();
    (shell.stdin as { unref?: () => void } | null)?.unref?.();
    this.#tell();
  }

  /** @param groupId id of the group's leader */
  watch(groupId: number): void {
    this.#groups.add(groupId);
    this.#tell();
  }

  /** Call it when the whole group is gone, since the system may reuse its number. */
  forget(groupId: number): void {
    this.#groups.delete(groupId);
    this.#tell();
  }

  /** Kills all groups still under watch. */
  close(): void {
    this.#isClosed = true;
    this.#shell?.stdin?.end();
  }

  #tell(): void {
    const stdin = this.#shell?.stdin;
    if (stdin?.writable === true) stdin.write(`${[...this.#groups].join(" ")}\n`);
  }
}
