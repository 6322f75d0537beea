/** Processes that share a cache of packed weights: they start at the same time, are killed, or cannot write. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, watch } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { repositoryRoot } from "../../../test/helpers/fixtures.js";
import { isLongRun } from "../../../test/helpers/long.js";
import { folderWith, packsIn, writeLargeModel } from "../../../test/helpers/pack-loads.js";
import { readPackTable } from "../../backend/cpu/packs/pack-file.js";

describe("processes that share a pack cache", () => {
  const LAUNCHER = join(repositoryRoot(), "bin/millrace.js");
  const started: ChildProcess[] = [];
  let root: string;
  let model: string;
  let cacheRoot: string;
  let folder: string;

  beforeAll(() => {
    ({ root, model } = folderWith(writeLargeModel));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  beforeEach(() => {
    cacheRoot = mkdtempSync(join(root, "shared-"));
    folder = join(cacheRoot, "packed");
    mkdirSync(folder);
  });
  afterEach(() => {
    for (const child of started.splice(0)) child.kill("SIGKILL");
  });

  /** @param prefix a command that runs the rest of its arguments */
  function start(prefix: readonly string[] = []): ChildProcess {
    const flags = ["--raw", "--prompt", "Once", "--temperature", "0", "--max-tokens", "8", "--threads", "2"];
    const memory = ["--max-model-len", "64", "--kv-cache-memory-bytes", "16MiB"];
    const own = [process.execPath, LAUNCHER, "generate", "--model", model, ...flags, ...memory];
    const [command, ...args] = [...prefix, ...own];
    const env = { ...process.env, MILLRACE_CACHE: cacheRoot };
    const child = spawn(command!, args, { env, stdio: ["ignore", "pipe", "pipe"] });
    started.push(child);
    return child;
  }

  async function ended(child: ChildProcess): Promise<{ stdout: string; stderr: string; exitCode: number | null }> {
    let stdout = "";
    let stderr = "";
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    const exitCode = await new Promise<number | null>((resolve) => child.once("close", resolve));
    return { stdout, stderr, exitCode };
  }

  /** A first start that is stopped in the middle of writing its pack. */
  async function stoppedPacker(): Promise<ChildProcess> {
    for (;;) {
      const child = start();
      await new Promise<void>((resolve) => {
        const watcher = watch(folder, (_, name) => {
          if (name?.endsWith(".tmp") !== true) return;
          child.kill("SIGSTOP");
          watcher.close();
          resolve();
        });
      });
      if (temporaries().length === 1 && packs().length === 0) return child;
      // It was faster than we were.
      child.kill("SIGKILL");
      await ended(child);
      for (const name of readdirSync(folder)) rmSync(join(folder, name));
    }
  }

  const packs = () => packsIn(folder);
  const temporaries = () => readdirSync(folder).filter((name) => name.endsWith(".tmp"));
  const kinds = () =>
    readdirSync(folder)
      .map((name) => name.slice(-4))
      .sort();
  const text = async (child: ChildProcess) => {
    const { stdout, stderr, exitCode } = await ended(child);
    expect(stderr).not.toContain("note:");
    expect({ exitCode, length: stdout.length > 1 }).toEqual({ exitCode: 0, length: true });
    return stdout;
  };

  it("two first starts at once both answer right and leave one pack", async () => {
    const first = await stoppedPacker();
    const second = await text(start());
    first.kill("SIGCONT");
    expect(await text(first)).toBe(second);
    expect(await text(start())).toBe(second);
    expect(kinds()).toEqual(["pack", ".ref"].sort());
    expect(readPackTable(join(folder, packs()[0]!))).toBeDefined();
  });

  it("what a killed start left behind is no pack, and the next start removes it", async () => {
    const killed = await stoppedPacker();
    killed.kill("SIGKILL");
    await ended(killed);
    expect(kinds()).toEqual([".tmp"]);
    const next = await text(start());
    expect(kinds()).toEqual(["pack", ".ref"].sort());
    expect(await text(start())).toBe(next);
  });

  // In npm test, a start in this process cannot write at all (packs.test.ts).
  it.runIf(isLongRun)(
    "a start whose writing fails midway says so, answers from memory and leaves nothing (needs npm run test:long)",
    async () => {
      // At most 40 000 blocks of 512 or 1024 bytes: about half the pack.
      const { stdout, stderr, exitCode } = await ended(start(["sh", "-c", 'ulimit -f 40000; exec "$0" "$@"']));
      expect(stderr).toMatch(/^note: packed weights could not be cached, .*EFBIG/m);
      expect({ exitCode, kinds: kinds() }).toEqual({ exitCode: 0, kinds: [] });
      expect(stdout).toBe(await text(start()));
    },
  );
});
