/** A gateway as the command starts it, with the parts that its file turns on. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { parseConfig } from "../../fleet/config/read-config.js";
import type { Fleet } from "../../fleet/fleet.js";
import { runFleet } from "./serve-fleet.js";

let fleet: Fleet | undefined;
let engine: Awaited<ReturnType<typeof startStandIn>>;

beforeEach(async () => {
  vi.stubEnv("MILLRACE_CACHE", tempTree({}));
  for (const stream of [process.stdout, process.stderr]) vi.spyOn(stream, "write").mockReturnValue(true);
  engine = await startStandIn(answerJson({ data: [] }));
});
afterEach(async () => {
  await fleet?.close();
  await engine.die();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

async function statusOf(path: string, key: string, more: string): Promise<number> {
  const text = `
port: 0
log-level: error
data-folder: ${tempTree({})}
models: [{ name: e, engine: openai, attach: [{ url: "${engine.url}" }] }]
${more}`;
  const signals = { fleetIsThere() {} } as never;
  fleet = await runFleet(parseConfig(text, "millrace.yaml", {}), { signals, readAgain: undefined });
  return (await fetch(fleet.url + path, { headers: { authorization: `Bearer ${key}` } })).status;
}

test("the models on the disk are there for operators without an admin-key, each by the role", async () => {
  expect(await statusOf("/admin/library", "k-viewer", "operators: [{ name: v, role: viewer, key: k-viewer }]")).toBe(
    200,
  );
});

test("without operators there are none", async () => {
  expect(await statusOf("/admin/library", "k-viewer", "")).toBe(404);
});
