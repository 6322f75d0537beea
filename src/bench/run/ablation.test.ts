import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../../test/helpers/fixtures.js";
import { ablationOf } from "./ablation.js";

const MODEL = join(repositoryRoot(), "test/fixtures/models/stories260k.gguf");

test("only vanilla must start: all other variants use its facts, under one name of the model", () => {
  const wishes = { scale: 1, durationS: 1, shapes: [[16, 9]], concurrency: [2], only: ["ladder"] } as const;
  const options = { engine: "millrace", hasSpeculation: true, rounds: 1, threads: 2 } as const;
  const { targets, planned } = ablationOf(MODEL, options, wishes);
  expect(targets[0]!.name).toBe("naive");
  expect(targets.filter(({ factsOf }) => factsOf === undefined).map(({ name }) => name)).toEqual(["vanilla"]);
  for (const { launch } of targets) {
    expect(launch!.command(1, planned.cells[0]!.shape).join(" ")).toContain("--served-model-name stories260k");
  }
});
