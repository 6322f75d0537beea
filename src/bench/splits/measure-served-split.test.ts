/** Splits of another engine's servers, with stand-in programs. */
import { expect, test } from "vitest";
import { modelSpec, scriptProgram } from "../../../test/helpers/fleet.js";
import { measureServedSplit } from "./measure-served-split.js";

test("the tokens of all instances count, and nothing stays behind", async () => {
  const split = { instances: 2, perInstance: 1 };
  const measured = await measureServedSplit(modelSpec({ instances: 2 }), split, 4);
  expect(measured).toMatchObject(split);
  expect(measured.tokensPerS).toBeGreaterThan(0);
});

test("an instance that does not start is an error with the end of its log", async () => {
  const spec = modelSpec({ program: scriptProgram("console.error('no such device'); process.exit(3)") });
  const measuring = measureServedSplit(spec, { instances: 1, perInstance: 1 }, 1);
  await expect(measuring).rejects.toMatchObject({
    code: "peer_failed",
    message: expect.stringMatching(/no such device/),
  });
});
