/** An engine thread that is really stuck: in reading a file that never answers, as on a dead network disk. */
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Engine } from "../../src/engine/api/engine.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { GREEDY_SAMPLING } from "../../src/engine/api/request.js";
import { until } from "../helpers/fake-server.js";
import { repositoryRoot } from "../helpers/fixtures.js";

/** The compiled one: it starts a thread from a file. */
const ENGINE = join(repositoryRoot(), "dist/src/engine/engine.js");
const PATIENCE_MS = 100;
const promptIds = Int32Array.from({ length: 64 }, (_, i) => 300 + i);

async function startEngine(folder: string): Promise<Engine> {
  const { startEngine: start } = (await import(ENGINE)) as typeof import("../../src/engine/engine.js");
  const options = {
    ...DEFAULT_ENGINE_OPTIONS,
    modelPath: join(repositoryRoot(), "models/mill-base.gguf"),
    numThreads: 1,
    prefixCacheDisk: { folder, maxBytes: 2 ** 30 },
  };
  return start(
    options,
    () => {},
    () => {},
    PATIENCE_MS,
  );
}

function complete(engine: Engine): Promise<readonly number[]> {
  const ids: number[] = [];
  return new Promise((resolve, reject) => {
    engine.submit(
      { promptIds, sampling: { ...GREEDY_SAMPLING, maxTokens: 8 } },
      {
        onError: reject,
        onOutput(output) {
          ids.push(...output.tokenIds);
          if (output.finishReason !== undefined) resolve(ids);
        },
      },
    );
  });
}

const blocksIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".kv"))
    .map((name) => join(folder, name));

test.skipIf(process.platform === "win32")("a thread that hangs in a file operation is detected", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-stall-"));
  try {
    const first = await startEngine(folder);
    const expected = await complete(first);
    expect(first.stalledMs()).toBe(0);
    await first.close();
    const blocks = blocksIn(folder);
    expect(blocks.length).toBeGreaterThan(0);
    for (const path of blocks) {
      renameSync(path, `${path}.whole`);
      // Whoever opens it waits until somebody writes.
      execFileSync("mkfifo", [path]);
    }
    const engine = await startEngine(folder);
    // Idle is not stuck, however long.
    await new Promise((resolve) => setTimeout(resolve, 2 * PATIENCE_MS));
    expect(engine.stalledMs()).toBe(0);
    const answer = complete(engine);
    await until(() => engine.stalledMs() > PATIENCE_MS, "the thread to be found out");
    // A damaged block is no block: the prompt is computed.
    for (const path of blocks) renameSync(`${path}.whole`, `${path}.unread`);
    const release = setInterval(() => {
      for (const path of blocksIn(folder)) closeSync(openSync(path, "r+"));
    }, 20);
    expect(await answer).toEqual(expected);
    clearInterval(release);
    expect(engine.stalledMs()).toBe(0);
    await engine.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
