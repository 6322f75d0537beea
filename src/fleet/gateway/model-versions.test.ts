import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { until } from "../../../test/helpers/fake-server.js";
import { modelSpec } from "../../../test/helpers/fleet.js";
import { TestPool, upstreamOf } from "../../../test/helpers/fleet-pool.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import { ModelVersions } from "./model-versions.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-versions-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const weights = join(folder, "weights.gguf");
beforeEach(() => writeFileSync(weights, "w".repeat(1000)));

const spec = (change: Partial<ModelSpec> = {}) =>
  modelSpec({ engine: "millrace", options: { model: weights }, ...change });
const own = (n: number, fields = {}) => upstreamOf(`m-${n}`, { engine: "millrace", starts: 1, ...fields });
const none: ReadonlyMap<string, string> = new Map();

/** Waits until the files are read. */
async function settled(versions: ModelVersions): Promise<string | undefined> {
  await until(() => versions.of("m") !== undefined, "the version");
  return versions.of("m");
}

function open(pool: TestPool, of: ModelSpec = spec(), words = none): ModelVersions {
  const versions = new ModelVersions(pool);
  versions.configure([of], words);
  return versions;
}

describe("the version of a model", () => {
  test("is the same for the same files and settings, in another gateway too", async () => {
    const one = await settled(open(new TestPool([own(0), own(1)])));
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(await settled(open(new TestPool([own(0, { starts: 9 })]), spec({ instances: 4, drainTimeoutMs: 1 })))).toBe(
      one,
    );
  });

  test("changes with the weights, once the instance has started again", async () => {
    const pool = new TestPool([own(0)]);
    const versions = open(pool);
    const one = await settled(versions);
    writeFileSync(weights, "v".repeat(1000));
    pool.change("m-0", { metrics: undefined });
    expect(versions.of("m")).toBe(one);
    pool.change("m-0", { state: "starting", starts: 2 });
    pool.change("m-0", { state: "ready" });
    expect(versions.of("m")).toBeUndefined();
    const two = await settled(versions);
    expect(two).not.toBe(one);
    // With the former weights, the model is the former model again.
    writeFileSync(weights, "w".repeat(1000));
    pool.change("m-0", { starts: 3 });
    expect(await settled(versions)).toBe(one);
  });

  test("is unknown while instances differ", async () => {
    const pool = new TestPool([own(0), own(1)]);
    const versions = open(pool);
    const one = await settled(versions);
    appendFileSync(weights, "x");
    pool.change("m-1", { starts: 2 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(versions.of("m")).toBeUndefined();
    pool.change("m-0", { starts: 2 });
    expect(await settled(versions)).not.toBe(one);
  });

  test("stays while the model is unloaded, and is unknown before its first start", async () => {
    const pool = new TestPool([own(0, { state: "stopped", starts: 0 })]);
    const versions = open(pool);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(versions.of("m")).toBeUndefined();
    pool.change("m-0", { state: "ready", starts: 1 });
    const one = await settled(versions);
    pool.change("m-0", { state: "stopped" });
    expect(versions.of("m")).toBe(one);
  });

  test("changes with settings, arguments and the files that they name; while processes are replaced it is unknown", async () => {
    const template = join(folder, "template.jinja");
    writeFileSync(template, "a");
    const args = ["--chat-template", template];
    const pool = new TestPool([own(0)]);
    const versions = open(pool);
    const seen = [await settled(versions)];
    for (const change of [
      { args },
      { args: [`--chat-template=${template}`] },
      { options: { model: weights, maxModelLen: 5 } },
    ]) {
      versions.configure([spec(change)], none);
      expect(versions.of("m")).toBeUndefined();
      pool.change("m-0", { starts: pool.upstreams("m")[0]!.starts + 1 });
      seen.push(await settled(versions));
    }
    versions.configure([spec({ args })], none);
    writeFileSync(template, "b");
    pool.change("m-0", { starts: 20 });
    seen.push(await settled(versions));
    expect(new Set(seen).size).toBe(5);
  });

  test("of servers of others changes with each of their starts and of the gateway's, unless the operator names it", async () => {
    const attach = [{ url: "http://a", apiKey: undefined, modelName: undefined }];
    const attached = (starts: number) => new TestPool([upstreamOf("m-attached-0", { starts })]);
    const remote = modelSpec({ engine: "vllm", attach });
    const pool = attached(1);
    const versions = open(pool, remote);
    const one = await settled(versions);
    pool.change("m-attached-0", { state: "suspect" });
    expect(versions.of("m")).toBe(one);
    pool.change("m-attached-0", { starts: 2 });
    const two = await settled(versions);
    expect(new Set([one, two, await settled(open(attached(1), remote))]).size).toBe(3);
    const named = new Map([["m", "2026-11"]]);
    const three = await settled(open(attached(1), remote, named));
    expect(await settled(open(attached(7), remote, named))).toBe(three);
    expect(await settled(open(attached(7), remote, new Map([["m", "2026-12"]])))).not.toBe(three);
  });

  test("of a model that the engine downloads changes with each start", async () => {
    const pool = new TestPool([own(0)]);
    const versions = open(pool, spec({ options: { model: "an/unknown-model" } }));
    const one = await settled(versions);
    pool.change("m-0", { starts: 2 });
    expect(await settled(versions)).not.toBe(one);
  });

  test("is unknown for other names", () => {
    expect(open(new TestPool([own(0)])).of("other")).toBeUndefined();
  });
});
