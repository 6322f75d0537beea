/**
 * A disk image in QEMU, with KVM where the processor has it, as a cloud would start it: user data from a NoCloud disk,
 * SSH with a key of its own, and the console kept as a log.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { freePort } from "../helpers/free-port.js";
import { hasProgram } from "./machine.js";

const NEEDED = ["mmdebstrap", "qemu-system-x86_64", "qemu-img", "mcopy", "mkfs.vfat", "sfdisk", "ssh", "ssh-keygen"];
/** Debian's package ovmf. */
const UEFI = "/usr/share/ovmf/OVMF.fd";

/** Why no disk can be built and started here; undefined: one can. */
export function whyNoVm(): string | undefined {
  if (process.env.MILLRACE_BOOT === undefined) return "npm run test:boot runs it: it takes ten minutes";
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs root on Linux";
  for (const name of NEEDED) if (!hasProgram(name)) return `needs ${name}`;
  if (!existsSync(UEFI)) return "needs the firmware of Debian's package ovmf";
  return undefined;
}

/**
 * A processor's own virtualization. Others behind /dev/kvm interpret a kernel's code, and stop at instructions that
 * they lack.
 */
const hasKvm = (): boolean =>
  existsSync("/dev/kvm") && ["kvm_intel", "kvm_amd"].some((name) => existsSync(`/sys/module/${name}`));
const accelerator = (): string[] =>
  hasKvm() ? ["-accel", "kvm", "-cpu", "host"] : ["-accel", "tcg,thread=multi", "-cpu", "max"];

/** The console is QEMU's stdout. */
const MACHINE = "-smp 2 -m 3072 -display none -serial stdio -monitor none -no-reboot".split(" ");

interface VmOptions {
  readonly folder: string;
  readonly disk: string;
  readonly firmware: "bios" | "uefi";
}

export class Vm implements AsyncDisposable {
  private constructor(
    private readonly child: ChildProcess,
    private readonly folder: string,
    readonly url: string,
    private readonly sshPort: number,
    readonly ended: Promise<number | null>,
  ) {}

  static async start({ folder, disk, firmware }: VmOptions): Promise<Vm> {
    const [http, ssh] = [await freePort(), await freePort()];
    const seed = makeSeed(folder);
    const log = openSync(join(folder, `${firmware}.log`), "w");
    const drive = (file: string, format: string): string[] => ["-drive", `file=${file},if=virtio,format=${format}`];
    const child = spawn(
      "qemu-system-x86_64",
      [
        ...accelerator(),
        ...MACHINE,
        ...(firmware === "uefi" ? ["-bios", UEFI] : []),
        ...drive(disk, "qcow2"),
        ...drive(seed, "raw"),
        "-netdev",
        // Without a way out: the image has all that it needs.
        `user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:${http}-:8000,hostfwd=tcp:127.0.0.1:${ssh}-:22`,
        "-device",
        "virtio-net-pci,netdev=net",
      ],
      { stdio: ["ignore", log, log] },
    );
    closeSync(log);
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    return new Vm(child, folder, `http://127.0.0.1:${http}`, ssh, ended);
  }

  /** Runs a command over SSH. @returns its stdout */
  async run(command: string): Promise<string> {
    const options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=5"];
    const { stdout } = await promisify(execFile)("ssh", [
      ...options.flatMap((option) => ["-o", option]),
      "-i",
      join(this.folder, "key"),
      "-p",
      String(this.sshPort),
      "debian@127.0.0.1",
      command,
    ]);
    return stdout.trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null) this.child.kill("SIGKILL");
    await this.ended;
  }
}

/** User data that every cloud can give: a name, and a key for SSH. */
function makeSeed(folder: string): string {
  const key = join(folder, "key");
  if (!existsSync(key)) execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", key]);
  const files = join(folder, "cidata");
  mkdirSync(files, { recursive: true });
  writeFileSync(join(files, "meta-data"), "instance-id: first\nlocal-hostname: millrace-test\n");
  const publicKey = readFileSync(`${key}.pub`, "utf8").trim();
  writeFileSync(join(files, "user-data"), `#cloud-config\nssh_authorized_keys: ["${publicKey}"]\n`);
  const disk = join(folder, "cidata.img");
  if (existsSync(disk)) return disk;
  execFileSync("mkfs.vfat", ["-C", "-n", "CIDATA", disk, "1024"], { stdio: "ignore" });
  execFileSync("mcopy", ["-i", disk, join(files, "meta-data"), join(files, "user-data"), "::/"]);
  return disk;
}
