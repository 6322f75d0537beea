import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { FakeEngine } from "../../../test/helpers/fake-engine.js";
import { packageRoot } from "../../core/package-root.js";
import { bundledModelPath } from "../../formats/locate-model.js";
import { loadTextSide } from "../../text/text-side.js";
import { describeSharing, openAccessWarning } from "./describe-access.js";
import { aboutModel, type ReadyFacts, readyText } from "./ready-text.js";

function facts(overrides: Partial<ReadyFacts>): ReadyFacts {
  return {
    modelNames: ["m"],
    chatTemplate: undefined,
    needsApiKey: false,
    samplingDefaults: {},
    path: "/models/m.gguf",
    server: { url: "http://127.0.0.1:1" },
    engine: new FakeEngine(),
    ...overrides,
  };
}

test("the start shows the sampling defaults", () => {
  expect(readyText(facts({ samplingDefaults: { temperature: 0.6, top_k: 20 } }))).toMatch(
    /sampling +temperature 0.6, top_k 20, unless a request sets its own/,
  );
  expect(readyText(facts({}))).toMatch(/sampling +the API's defaults \(temperature 1\)/);
});

test("the bundled model's start describes the model by its card, and how to serve another", () => {
  const text = readyText(facts({ path: bundledModelPath() }));
  const [, parameters, tokens] = /([\d.]+) M parameters, trained on (\d+) M tokens/.exec(text) ?? [];
  const card = readFileSync(join(packageRoot(), "models/README.md"), "utf8");
  expect(card).toContain(`has read ${tokens} million tokens`);
  const ofCard = Number(/`mill-base`.*\| ([\d.]+) M \|/.exec(card)?.[1]);
  expect(ofCard).toBeCloseTo(Number(parameters), 1);
  expect(text).toContain("--model hf:");
  expect(readyText(facts({}))).not.toContain("tiny");
});

test("the bundled student's start describes extraction, and its example extracts", async () => {
  const path = bundledModelPath("mill-student");
  const { chatTemplate } = await loadTextSide(path);
  const text = readyText(facts({ path: relative(process.cwd(), path), chatTemplate }));
  const [, parameters] = /([\d.]+) M parameters, distilled from mill-base/.exec(text) ?? [];
  const card = readFileSync(join(packageRoot(), "models/README.md"), "utf8");
  expect(Number(/`mill-student`.*\| ([\d.]+) M \|/.exec(card)?.[1])).toBeCloseTo(Number(parameters), 1);
  expect(text).toMatch(/-d '.*I need JSON for/);
  expect(readyText(facts({ path: "/models/mill-student.gguf", chatTemplate }))).toMatch(/-d '.*Tell me a short story/);
});

test("the start tells what keys share, and warns of a server without keys", () => {
  expect(describeSharing("keys", [], true)).toBeUndefined();
  expect(describeSharing("keys", ["a", "a"], true)).toBeUndefined();
  const sharing = describeSharing("keys", ["a", "b"], true);
  expect(readyText(facts({ sharing }))).toMatch(/keys +each of 2 keys has its own cached prefixes \(--no-isolate/);
  expect(describeSharing("tenants", ["a", "b"], true)).toMatch(
    /2 tenants.*\(--no-isolate-api-keys, or isolate-api-keys: false in/,
  );
  expect(describeSharing("tenants", ["a", "b", "b"], false)).toMatch(/^2 tenants share cached prefixes/);
  expect(openAccessWarning("127.0.0.1", false, "x")).toBeUndefined();
  expect(openAccessWarning("0.0.0.0", true, "x")).toBeUndefined();
  expect(openAccessWarning("0.0.0.0", false, "--api-key closes it")).toMatch(/^warning: .*0\.0\.0\.0.*--api-key/);
});

test("a fleet describes the bundled model, however its path is written, and no other model", () => {
  expect(aboutModel(relative(process.cwd(), bundledModelPath()))).toContain("a tiny model");
  expect([aboutModel(""), aboutModel("hf:org/repo")]).toEqual(["", ""]);
});
