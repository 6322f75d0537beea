/** The work of a started server: the KV type from its flags, and windows from its file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { millraceServer } from "./servers.js";

const folder = mkdtempSync(join(tmpdir(), "servers-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("flags give the KV type, and the file gives the layers' windows", () => {
  const { path } = writeRandomModel(join(folder, "m.gguf"), { architecture: "gemma3", seed: 1 });
  const workWith = (...flags: string[]) => millraceServer("m", { path }, flags).work!;
  const { kvBytesPerToken, windows } = workWith();
  expect(windows).toEqual([{ tokens: 24, layerShare: 5 / 6 }]);
  expect(workWith("--kv-cache-dtype", "int8", "--kv-cache-dtype", "f32").kvBytesPerToken).toBe(2 * kvBytesPerToken);
  expect(workWith("--kv-cache-dtype=int8").kvBytesPerToken).toBeLessThan(kvBytesPerToken);
});
