/** A bare Debian of this machine's own: made by debootstrap, booted with systemd as its process 1. */
import { execFile, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { repositoryRoot } from "../helpers/fixtures.js";

const SUITE = "trixie";
/** What cloud images of Debian have, as far as this needs it. */
const INCLUDED = ["systemd", "systemd-sysv", "dbus", "cloud-init"];

export const hasProgram = (name: string): boolean =>
  (process.env.PATH ?? "").split(":").some((folder) => existsSync(join(folder, name)));

/** Why no machine can be booted here; undefined: one can. */
export function whyNoMachine(): string | undefined {
  if (process.env.MILLRACE_BOOT === undefined) return "npm run test:boot runs it: it takes ten minutes";
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs root on Linux";
  for (const name of ["debootstrap", "unshare", "nsenter"]) if (!hasProgram(name)) return `needs ${name}`;
  return cgroups() === undefined ? "needs a mounted cgroup2" : undefined;
}

const cgroups = (): string | undefined => / (\S+) cgroup2 /.exec(readFileSync("/proc/mounts", "utf8"))?.[1];

/** Once, then kept in build/. */
function baseSystem(): string {
  const base = join(repositoryRoot(), "build", "boot", SUITE);
  if (existsSync(base)) return base;
  const unfinished = `${base}.part`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const mirror = process.env.MILLRACE_DEBIAN_MIRROR ?? "http://deb.debian.org/debian";
  const run = (command: string, ...args: readonly string[]) => execFileSync(command, args, { stdio: "inherit" });
  run("debootstrap", "--variant=minbase", SUITE, unfinished, mirror);
  // Not by debootstrap's --include: it configures packages in an order that Python's do not stand.
  run("chroot", unfinished, "apt-get", "install", "--yes", "--no-install-recommends", ...INCLUDED);
  renameSync(unfinished, base);
  return base;
}

const COMPILERS = ["cc", "gcc", "c++", "g++", "clang", "tcc"];

export class Machine implements AsyncDisposable {
  private constructor(
    readonly root: string,
    private readonly pid: number,
    private readonly group: string,
    private readonly ended: Promise<void>,
  ) {}

  /** @param seed user data for cloud-init */
  static async boot(folder: string, seed: string): Promise<Machine> {
    const root = join(folder, "root");
    execFileSync("cp", ["-a", "--reflink=auto", baseSystem(), root]);
    const write = (path: string, text: string): void => {
      mkdirSync(join(root, path, ".."), { recursive: true });
      writeFileSync(join(root, path), text);
    };
    write("var/lib/cloud/seed/nocloud/user-data", seed);
    write("var/lib/cloud/seed/nocloud/meta-data", "instance-id: boot-test\n");
    // The network is this machine's: nothing may set it up again.
    write("etc/cloud/cloud.cfg.d/99-boot-test.cfg", "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n");
    for (const file of ["etc/resolv.conf", "etc/hosts"]) cpSync(`/${file}`, join(root, file), { dereference: true });
    // Packages come from where this machine has them from.
    const npm = (key: string) =>
      execFileSync("npm", ["config", "get", key], { encoding: "utf8", stdio: "pipe" }).trim();
    const [registry, cafile] = [npm("registry"), npm("cafile")];
    if (existsSync(cafile)) cpSync(cafile, join(root, "etc/host-ca.crt"), { dereference: true });
    write("root/.npmrc", `registry=${registry}\n${existsSync(cafile) ? "cafile=/etc/host-ca.crt\n" : ""}`);
    const script = join(repositoryRoot(), "test/boot/machine.sh");
    const group = join(cgroups()!, `millrace-boot-${process.pid}`);
    const child = spawn("sh", [script, root, join(folder, "console"), group], { stdio: "ignore", detached: true });
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    return new Machine(root, await initOf(child.pid!), group, ended);
  }

  /** Runs a program in the machine. @returns its stdout; throws where it fails */
  async run(...command: readonly string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(
      "nsenter",
      ["-t", String(this.pid), "-m", "-p", "-u", "-i", "-r", "-w", ...command],
      { maxBuffer: 2 ** 24 },
    );
    return stdout;
  }

  /** What is said whether or not it succeeds. */
  tell(...command: readonly string[]): Promise<string> {
    return this.run(...command).catch(
      (thrown: { stdout?: string; message: string }) => thrown.stdout || thrown.message,
    );
  }

  async compilers(): Promise<readonly string[]> {
    const found = await Promise.all(COMPILERS.map((name) => this.tell("sh", "-c", `command -v ${name} || true`)));
    return found.map((path) => path.trim()).filter((path) => path !== "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.kill(this.pid, "SIGKILL");
    await this.ended;
    // Only empty ones can be removed, the innermost first.
    execFileSync("find", [this.group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
  }
}

/** unshare's only child, once it is systemd. */
async function initOf(pid: number): Promise<number> {
  for (let numTries = 0; numTries < 100; numTries++) {
    await wait(100);
    const children = existsSync(`/proc/${pid}/task/${pid}/children`)
      ? readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim()
      : "";
    const name = children === "" ? "" : readFileSync(`/proc/${children}/comm`, "utf8").trim();
    if (name === "systemd") return Number(children);
  }
  throw new Error("expected systemd to start in ten seconds, got none");
}
