/** `image build`: from Debian's packages and the packed millrace to a disk that boots with BIOS and UEFI. */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import { debianPackages, enableStep, engineSteps, machineFiles, usersStep } from "../bare-machine.js";
import type { ImageFleet, ImageRequest, PackageSource } from "../image-request.js";
import { APP, npmInstall } from "../machine.js";
import { driverInImage } from "../nvidia.js";
import { writeDisk } from "./layout.js";
import { assertPrograms, type DiskStage, runProgram } from "./run-program.js";
import { BIOS_CORE, BOOT_SECTOR, EFI_FOLDER, lastSteps, systemFiles, systemPackages } from "./system.js";

export interface DiskRequest {
  /** Ends with .qcow2 or .raw. */
  readonly out: string;
  readonly sizeBytes: number;
  readonly suite: string;
  /** Absent: Debian's own, with its security updates. */
  readonly mirror: string | undefined;
}

/**
 * Throws image_program and image_failed, and when `signal` aborts; in each case it removes its files.
 *
 * @returns the size of the written file
 */
export async function buildDisk(
  fleet: ImageFleet,
  { packages }: ImageRequest,
  { out, sizeBytes, suite, mirror }: DiskRequest,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<number> {
  assertBuilder();
  const begin = (name: string): DiskStage => Object.assign(startStage(name), { signal });
  // Beside the disk, since the finished disk is renamed; under a new name, since no existing folder may be removed.
  const work = mkdtempSync(`${out}.build-`);
  const root = join(work, "root");
  // The disk's files must be readable for all its users, whatever the builder's own mask.
  const umask = process.umask(0o022);
  try {
    await makeRoot(begin("debian"), root, fleet, suite, mirror);
    await installMillrace(begin("millrace"), root, packages);
    await finishRoot(begin("system"), root, fleet);
    const stage = begin("disk");
    const raw = join(work, "disk.raw");
    await writeDisk(stage, raw, sizeBytes, root, {
      bootSector: join(root, BOOT_SECTOR),
      biosCore: join(root, BIOS_CORE),
      efiFolder: join(root, EFI_FOLDER),
    });
    const made = out.endsWith(".qcow2") ? join(work, "disk.qcow2") : raw;
    if (made !== raw) await runProgram(stage, ["qemu-img", "convert", "-c", "-O", "qcow2", raw, made]);
    chmodSync(made, 0o666 & ~umask);
    renameSync(made, out);
    stage.done(out);
    // A raw disk is sparse: this is its size on the file system.
    return statSync(out).blocks * 512;
  } finally {
    process.umask(umask);
    rmSync(work, { recursive: true, force: true });
  }
}

/** Throws image_program. */
function assertBuilder(): void {
  const here = `${process.platform}-${process.arch}`;
  const user = process.getuid?.() ?? -1;
  if (here !== "linux-x64" || user !== 0) {
    throw new MillraceError(
      "image_program",
      `expected root on linux-x64 to build a disk, got ${user === 0 ? "root" : `user ${user}`} on ${here}`,
      {
        hint: "run it with sudo on such a machine, or render files with millrace image render",
      },
    );
  }
  assertPrograms();
}

async function makeRoot(
  stage: DiskStage,
  root: string,
  fleet: ImageFleet,
  suite: string,
  mirror: string | undefined,
): Promise<void> {
  const packages = [...systemPackages(fleet), ...debianPackages(fleet, false)];
  const options = ["--variant=minbase", "--mode=root", "--format=directory", `--include=${packages.join(",")}`];
  await runProgram(
    stage,
    [
      // mmdebstrap's mounts in the root, such as /dev, end with this namespace, so the root can be removed.
      "unshare",
      "--mount",
      "mmdebstrap",
      ...options,
      '--aptopt=Apt::Install-Recommends "false"',
      suite,
      root,
      ...(mirror === undefined ? [] : [mirror]),
    ],
    { hint: "check --suite and --mirror; millrace needs Debian 13 (trixie) or later for its Node" },
  );
  stage.done(`${suite}, ${packages.length} packages and what they need`);
}

/** With the builder's npm, registry and certificates: the disk then needs no npm. */
async function installMillrace(stage: DiskStage, root: string, packages: readonly PackageSource[]): Promise<void> {
  const app = join(root, APP);
  const folder = join(app, "packages");
  mkdirSync(folder, { recursive: true });
  const specs = packages.map((each) => {
    if (each.kind === "spec") return each.spec;
    copyFileSync(each.path, join(folder, each.name));
    return `./packages/${each.name}`;
  });
  const [, ...args] = npmInstall(specs, ".");
  await runProgram(stage, ["npm", ...args, "--os=linux", "--cpu=x64", "--libc=glibc"], {
    cwd: app,
    hint: "check --package, and that npm install works on this machine",
  });
  rmSync(folder, { recursive: true });
  stage.done(specs.map((spec) => basename(spec)).join(", "));
}

async function finishRoot(stage: DiskStage, root: string, fleet: ImageFleet): Promise<void> {
  for (const { path, text } of [...machineFiles(fleet), ...systemFiles]) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  // GPU images' steps use the network; the last step restores systemd-resolved's link here.
  rmSync(join(root, "etc/resolv.conf"), { force: true });
  if (existsSync("/etc/resolv.conf")) copyFileSync("/etc/resolv.conf", join(root, "etc/resolv.conf"));
  const driver = fleet.numGpus > 0 ? driverInImage : [];
  for (const step of [...driver, usersStep, ...engineSteps(fleet), enableStep(false), ...lastSteps]) {
    await runProgram(stage, [
      "unshare",
      "--mount",
      "--pid",
      "--fork",
      `--mount-proc=${root}/proc`,
      "chroot",
      root,
      ...step,
    ]);
  }
  stage.done("users, services, boot loader");
}
