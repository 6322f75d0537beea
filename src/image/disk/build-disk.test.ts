/** A build with stand-ins for Debian's programs. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { silentStages } from "../../core/stages.js";
import type { ImageFleet, ImageRequest } from "../image-request.js";
import { buildDisk } from "./build-disk.js";

const programs = vi.hoisted(() => ({ run: (_: readonly string[]): void => {} }));
vi.mock("./run-program.js", () => ({
  assertPrograms: () => {},
  runProgram: async (_: unknown, command: readonly string[]) => programs.run(command),
}));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "build-disk-"));
  vi.spyOn(process, "getuid").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

const FLEET = { engine: "millrace", numGpus: 0, text: "models: []\n" } as unknown as ImageFleet;
const REQUEST = { packages: [{ kind: "spec", spec: "millrace@0.1.0" }] } as unknown as ImageRequest;
const READ_BY_ALL = ["opt/millrace", "etc/millrace/millrace.yaml", "etc/systemd/network/90-dhcp.network"];
const UNITS = ["ssh.service", "systemd-networkd-wait-online.service"];
const isBuilder = process.platform === "linux" && process.arch === "x64";

test.skipIf(!isBuilder)("the disk's users can read its files; a stopped build leaves nothing behind", async () => {
  const own = process.umask(0o077);
  const modes: Record<string, number> = {};
  const texts: Record<string, string> = {};
  programs.run = (command) => {
    const [work] = readdirSync(folder);
    const root = join(folder, work!, "root");
    if (command.includes("mmdebstrap")) mkdirSync(join(root, "etc"), { recursive: true });
    if (command[0] !== "sfdisk") return;
    for (const path of READ_BY_ALL) modes[path] = statSync(join(root, path)).mode & 0o777;
    for (const unit of UNITS)
      texts[unit] = readFileSync(join(root, `etc/systemd/system/${unit}.d/millrace.conf`), "utf8");
    throw new Error("stopped");
  };
  const disk = { out: join(folder, "disk.raw"), sizeBytes: 2 ** 20, suite: "trixie", mirror: undefined };
  try {
    const building = buildDisk(FLEET, REQUEST, disk, silentStages, new AbortController().signal);
    await expect(building).rejects.toThrow("stopped");
    expect(process.umask()).toBe(0o077);
  } finally {
    process.umask(own);
  }
  expect(Object.values(modes)).toEqual([0o755, 0o644, 0o644]);
  // Without a cloud, SSH is left out; without a network card, the boot continues.
  expect(texts["ssh.service"]).toMatch(/^ConditionPathExistsGlob=\/etc\/ssh\/ssh_host_/m);
  expect(texts["systemd-networkd-wait-online.service"]).toMatch(/^ExecStart=\nExecStart=.* --timeout=30$/m);
  expect(readdirSync(folder)).toEqual([]);
});
