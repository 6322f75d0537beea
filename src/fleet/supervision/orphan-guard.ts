/**
 * Sees to it that no engine outlives the server, however that ends. A shell in a session of its own waits on a pipe from the server: at its end,
 * which the system sees to even after kill -9, it kills the process groups it was told of, and on Linux whatever else carries the fleet's mark.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { MARK_VARIABLE } from "./marked-processes.js";

/** A line lists all groups of the moment; the last one counts. Processes may fork while they are looked for: again, until none is found. */
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
  /** Begins the marks of all this fleet's processes. */
  readonly fleetId = randomUUID();
  readonly #groups = new Set<number>();
  #shell: ChildProcess | undefined;
  #isClosed = false;
  #hasWarned = false;

  /** @param onNotice where the system has no means to keep the promise */
  constructor(
    private readonly onNotice: (text: string) => void,
    private readonly platform: string = process.platform,
  ) {}

  /** Before the first process is started. */
  start(): void {
    if (this.#shell !== undefined || this.#isClosed) return;
    if (this.platform !== "linux" && !this.#hasWarned) {
      this.#hasWarned = true;
      this.onNotice(
        "workers that leave their engine's process group would outlive it: only Linux shows whose they are",
      );
    }
    const shell = spawn("/bin/sh", ["-c", SCRIPT, "sh", `${MARK_VARIABLE}=${this.fleetId}:`], {
      // Ctrl-C in a terminal reaches the server's session only.
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#shell = shell;
    // Its end is told below.
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

  /** @param groupId id of the process that leads the group */
  watch(groupId: number): void {
    this.#groups.add(groupId);
    this.#tell();
  }

  /** Once nothing of the group is left, since its number may then be another's. */
  forget(groupId: number): void {
    this.#groups.delete(groupId);
    this.#tell();
  }

  /** Whatever is still watched is killed. */
  close(): void {
    this.#isClosed = true;
    this.#shell?.stdin?.end();
  }

  #tell(): void {
    const stdin = this.#shell?.stdin;
    if (stdin?.writable === true) stdin.write(`${[...this.#groups].join(" ")}\n`);
  }
}
