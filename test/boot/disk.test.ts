/**
 * From nothing to an answer and a report, on a disk: `image build` makes it, and QEMU boots it whole by BIOS and by
 * UEFI, without a network to fetch anything from. MILLRACE_BOOT=1 (npm run test:boot). MILLRACE_BOOT_LOG=FILE keeps the
 * log.
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { runCli } from "../helpers/run-cli.js";
import { Vm, whyNoVm } from "./vm.js";

const script = join(repositoryRoot(), "scripts/package.js");
const why = whyNoVm() ?? (existsSync(script) ? undefined : "needs scripts/package.js, which makes the packages");
const MINUTE = 60_000;
const GIB = 2 ** 30;

let folder: string;
let disk: string;
const log: string[] = [];

const note = (text: string): void => void log.push(text);

/** Waits until it gives something. @returns it; throws with the console's end where time is over */
async function until<T>(what: () => Promise<T | undefined>, timeoutMs: number): Promise<T> {
  let last: unknown;
  for (const end = Date.now() + timeoutMs; Date.now() < end; await wait(1000)) {
    try {
      const got = await what();
      if (got !== undefined) return got;
    } catch (thrown) {
      last = thrown;
    }
  }
  throw new Error(`expected it within ${timeoutMs / 1000} s, got ${String(last)}`);
}

const page = (vm: Vm, path: string) => async (): Promise<string | undefined> => {
  const response = await fetch(`${vm.url}${path}`);
  return response.status === 200 ? response.text() : undefined;
};

async function ask(vm: Vm, key: string): Promise<string | undefined> {
  const response = await fetch(`${vm.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model: "mill-base",
      messages: [{ role: "user", content: "Tell me a short story about a fox." }],
      max_tokens: 40,
    }),
  });
  const answer = (await response.json()) as { choices?: [{ message: { content: string } }] };
  return answer.choices?.[0].message.content;
}

async function powerOff(vm: Vm): Promise<void> {
  await vm.run("sudo systemctl poweroff").catch(() => {});
  expect(await vm.ended).toBe(0);
}

beforeAll(async () => {
  if (why !== undefined) return;
  execFileSync(process.execPath, [script, "linux-x64"], { stdio: "inherit" });
  folder = mkdtempSync(join(tmpdir(), "millrace-disk-"));
  disk = join(folder, "disk.qcow2");
  const plan = join(folder, "plan.yaml");
  writeFileSync(plan, "models: [{name: mill-base, model: models/mill-base.gguf, instances: 1}]\n");
  const startMs = Date.now();
  const built = await runCli("image", "build", "--preset", plan, "--model", "bundled", "--out", disk);
  expect(built.exitCode, built.stderr).toBe(0);
  note(
    `${built.stderr}${built.stdout}built after ${((Date.now() - startMs) / 1000).toFixed(0)} s`.replaceAll(folder, "."),
  );
  // A cloud gives a larger disk than the image.
  execFileSync("qemu-img", ["resize", "-q", disk, "6G"]);
}, 20 * MINUTE);

beforeEach((context) => {
  // Needs root, mmdebstrap, QEMU and minutes: `why` says which of them is missing, and the summary shows it beside each
  // test.
  if (why !== undefined) context.skip(why);
});

afterAll(() => {
  const keep = process.env.MILLRACE_BOOT_LOG;
  if (keep !== undefined) writeFileSync(keep, `${log.join("\n")}\n`);
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

test("it boots by BIOS, answers a chat, and shows its report", { timeout: 90 * MINUTE }, async () => {
  await using vm = await Vm.start({ folder, disk, firmware: "bios" });
  const startMs = Date.now();
  const at = (what: string): void => note(`${((Date.now() - startMs) / 1000).toFixed(0)} s after power-on: ${what}`);
  await until(page(vm, "/health"), 10 * MINUTE);
  at("/health answers 200");
  // The key that the machine made, over SSH with the key of the user data.
  const key = await until(async () => vm.run("sudo cat /var/lib/millrace/api-key"), 5 * MINUTE);
  expect((await fetch(`${vm.url}/v1/models`)).status).toBe(401);
  const answer = await until(() => ask(vm, key), 5 * MINUTE);
  at(`a chat's answer: ${JSON.stringify(answer)}`);
  expect(answer).toMatch(/fox/);
  // The quick bench takes minutes with KVM, and half an hour of emulated instructions.
  const report = await until(page(vm, "/report"), 60 * MINUTE);
  at(`/report, ${report.length} characters`);
  expect(report).toMatch(/128\/64/);
  expect(report).toMatch(/all ÷ vanilla/);
  note(await vm.run("sudo journalctl --namespace millrace --no-pager --output cat"));

  // It ends with 2 where a module has warned; the log tells which.
  const cloud = await vm.run("cloud-init status --long || true");
  note(cloud);
  expect(cloud).toMatch(/^status: done/m);
  expect(cloud).toMatch(/^recoverable_errors: \{\}/m);
  expect(await vm.run("hostname")).toBe("millrace-test");
  const rootBytes = Number(await vm.run("df --output=size --block-size=1 / | tail -1"));
  note(`root file system: ${(rootBytes / GIB).toFixed(2)} GiB on a disk of 6 GiB`);
  expect(rootBytes).toBeGreaterThan(5 * GIB);
  // Beside the bench on an emulated processor, the health check of a minute can run out of time; the next one finds an
  // idle machine.
  await until(
    async () => ((await vm.run("systemctl --failed --no-legend --plain")) === "" ? "none" : undefined),
    5 * MINUTE,
  );
  note(await vm.run("systemd-analyze time"));
  note(await vm.run("grep -h WARN /var/log/cloud-init.log || true"));
  await powerOff(vm);
});

test("a second boot, by UEFI, serves with the same key and the same report", { timeout: 15 * MINUTE }, async () => {
  const copy = join(folder, "uefi.qcow2");
  copyFileSync(disk, copy);
  await using vm = await Vm.start({ folder, disk: copy, firmware: "uefi" });
  const startMs = Date.now();
  const report = await until(page(vm, "/report"), 10 * MINUTE);
  note(`by UEFI: /report ${((Date.now() - startMs) / 1000).toFixed(0)} s after power-on`);
  expect(report).toMatch(/128\/64/);
  const key = await until(async () => vm.run("sudo cat /var/lib/millrace/api-key"), 5 * MINUTE);
  expect(await until(() => ask(vm, key), 5 * MINUTE)).toMatch(/fox/);
  expect(await vm.run("test -d /sys/firmware/efi && echo yes")).toBe("yes");
  await powerOff(vm);
});
