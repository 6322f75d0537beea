/** Runs Debian's programs for building a disk image, and names the package of a missing one. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { endingWithUs, killGroup } from "../../core/child-end.js";
import { MillraceError } from "../../core/errors.js";
import type { Stage } from "../../core/stages.js";

/** Program → its Debian package. */
const PACKAGES = {
  mmdebstrap: "mmdebstrap",
  npm: "npm",
  unshare: "util-linux",
  sfdisk: "fdisk",
  "mkfs.ext4": "e2fsprogs",
  "mkfs.vfat": "dosfstools",
  mcopy: "mtools",
  "qemu-img": "qemu-utils",
} as const;
type Program = keyof typeof PACKAGES;

/** Programs that create file systems are in sbin, which most users' PATH lacks. */
const PATH = `${process.env.PATH ?? ""}:/usr/sbin:/sbin`;

const isInstalled = (program: string): boolean => PATH.split(":").some((folder) => existsSync(join(folder, program)));

/** Throws image_program. */
export function assertPrograms(): void {
  const missing = (Object.keys(PACKAGES) as Program[]).filter((program) => !isInstalled(program));
  if (missing.length === 0) return;
  throw new MillraceError("image_program", `expected ${missing.join(", ")} to be installed, got none`, {
    hint: `apt-get install ${[...new Set(missing.map((program) => PACKAGES[program]))].join(" ")}`,
  });
}

/** A stage of a build that `signal` stops. */
export interface DiskStage extends Stage {
  readonly signal: AbortSignal;
}

interface RunOptions {
  readonly cwd?: string;
  readonly stdin?: string;
  /** Advice for a user whose program fails. */
  readonly hint?: string;
}

const MAX_LINES = 12;
/** Time for mmdebstrap to unmount its mounts. */
const STOP_MS = 10_000;

/**
 * Each output line of the program updates the stage; the stage's signal ends the program and its children. Throws
 * image_failed with its last lines.
 */
export async function runProgram(
  stage: DiskStage,
  [program, ...args]: readonly [Program, ...string[]],
  { cwd, stdin = "", hint }: RunOptions = {},
): Promise<void> {
  const { signal } = stage;
  signal.throwIfAborted();
  // A separate process group: a terminal's Ctrl-C reaches only this process, which then ends the whole group.
  const child = endingWithUs(
    spawn(program, args, {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...process.env, PATH, LC_ALL: "C.UTF-8", DEBIAN_FRONTEND: "noninteractive" },
      detached: true,
    }),
  );
  let killing: NodeJS.Timeout | undefined;
  const stop = (): void => {
    killGroup(child, "SIGTERM");
    killing = setTimeout(() => killGroup(child, "SIGKILL"), STOP_MS);
  };
  signal.addEventListener("abort", stop);
  const last: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    let rest = "";
    stream.setEncoding("utf8").on("data", (text: string) => {
      const lines = `${rest}${text}`.split(/[\r\n]+/);
      rest = lines.pop()!;
      for (const line of lines.filter((each) => each.trim() !== "")) {
        last.push(line);
        if (last.length > MAX_LINES) last.shift();
        stage.update(line.slice(0, 100));
      }
    });
    stream.on("end", () => rest !== "" && last.push(rest));
  }
  // A program that ends early closes its input; its exit code is more informative than the broken pipe.
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  const end = await new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, by) => resolve(String(code ?? by)));
  });
  clearTimeout(killing);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  if (end === "0") return;
  const command = [program, ...args.slice(0, 3)].join(" ");
  throw new MillraceError("image_failed", `expected ${command} … to end with 0, got ${end}: ${last.join("\n")}`, {
    ...(hint === undefined ? {} : { hint }),
  });
}
