import { describe, expect, test } from "vitest";
import { checkConfig } from "./config/read-config.js";
import { type FleetMachine, type PlannedModel, planModels } from "./plan-models.js";
import type { Split } from "./scaling/instance-plan.js";

const CORES = [
  [0, 4],
  [1, 5],
  [2, 6],
  [3, 7],
];

/** The first model of a configuration, on a machine with four cores of two threads each. */
function planned(model: string, more = "", splits: readonly [string, Split][] = [], cores = CORES): PlannedModel {
  const { config, problems } = checkConfig(`${more}\nmodels: [{ name: m, ${model} }]`, { SECRET: "s3cret" });
  if (config === undefined) expect.fail(JSON.stringify(problems));
  const machine: FleetMachine = { cores, splits: new Map(splits), millraceSeats: 64 };
  return planModels(config, machine)[0]!;
}

describe("the number of instances", () => {
  test.each([
    ["model: x", 1, 1],
    ["model: x, instances: 3", 3, 3],
    ["model: x, instances: { min: 2, max: 5 }", 2, 5],
    ["model: x, load: on-demand", 0, 1],
    ["model: x, load: on-demand, instances: 3", 0, 3],
    ["model: x, instances: { min: 0, max: 2 }", 0, 2],
  ])("%s", (text, min, max) => {
    const { spec, kept } = planned(text);
    expect(spec.instances).toBe(min);
    expect(kept?.rules).toMatchObject({ min, max });
  });

  test("with auto is the measured number", () => {
    const { spec, kept } = planned("model: x, instances: auto", "", [["m", { instances: 2, perInstance: 2 }]]);
    expect(spec).toMatchObject({ instances: 2, cores: CORES, coresPerInstance: 2 });
    expect(kept?.rules).toMatchObject({ min: 2, max: 2 });
  });

  test("is zero for servers that are only attached", () => {
    const { spec, kept } = planned(
      'engine: openai, aliases: [n], attach: [{ url: "http://h:1", api-key: env:SECRET }]',
    );
    expect(kept).toBeUndefined();
    expect(spec).toMatchObject({ instances: 0, attach: [{ url: "http://h:1", apiKey: "s3cret", modelName: "m" }] });
  });
});

describe("the cores of instances", () => {
  test("are divided into whole cores among several instances of the embedded engine", () => {
    const { spec } = planned("model: x, instances: 2");
    expect(spec).toMatchObject({ cores: CORES, coresPerInstance: 2 });
    expect(planned("model: x, instances: 3").spec).toMatchObject({ cores: CORES, coresPerInstance: 1 });
  });

  test("are replaced by numbers of threads under a quota, at least one per instance", () => {
    const two = [[], []];
    const threadsOf = (model: string) => planned(model, "", [], two).spec.options.threads;
    expect([threadsOf("model: x, instances: 2"), threadsOf("model: x, instances: 9")]).toEqual([1, 1]);
    expect(threadsOf("model: x, instances: 2, options: { threads: 2 }")).toBe(2);
    expect(threadsOf("model: x, instances: 2, cores: 0-1")).toBeUndefined();
  });

  test("are not restricted for a single instance or for engines on GPUs", () => {
    expect(planned("model: x").spec.cores).toBeUndefined();
    expect(planned("model: x, instances: 3, cores: 0-1").spec).toMatchObject({
      cores: [[0], [1]],
      coresPerInstance: 1,
    });
    const { spec } = planned("model: x, engine: vllm, instances: 2, gpus: [0, 1], gpus-per-instance: 1");
    expect(spec).toMatchObject({ gpus: ["0", "1"], gpusPerInstance: 1 });
    expect(spec.cores).toBeUndefined();
  });

  test("are not restricted for more instances than CPUs", () => {
    expect(planned("model: x, instances: 9").spec.cores).toBeUndefined();
  });

  test("set the number of threads of llama-server", () => {
    const { spec } = planned("model: x, engine: llama-server, cores: 0-3, cores-per-instance: 2");
    expect(spec).toMatchObject({ cores: [[0], [1], [2], [3]], coresPerInstance: 2, options: { threads: 2 } });
  });
});

test("all other settings are passed on unchanged", () => {
  const { spec, names, kept } = planned(
    "model: x, aliases: [n], program: [a, b], args: [--c], env: { K: env:SECRET }, start-timeout: 1m, memory: 1GiB, options: { max-num-seqs: 3 }",
    "autoscale: { up-at: 0.5, up-after: 1s }\ntimeouts: { drain: 7s }",
  );
  expect(spec).toEqual({
    name: "m",
    engine: "millrace",
    program: ["a", "b"],
    args: ["--c"],
    env: { K: "s3cret" },
    host: "127.0.0.1",
    options: { model: "x", maxNumSeqs: 3 },
    instances: 1,
    attach: [],
    scaleDown: "stop",
    startTimeoutMs: 60_000,
    drainTimeoutMs: 7000,
  });
  expect(names).toEqual(["m", "n"]);
  expect(kept).toMatchObject({ estimatedBytes: 2 ** 30, isBytesGiven: true });
  expect(kept?.rules).toMatchObject({ upAt: 0.5, upAfterMs: 1000, downAfterMs: 600_000 });
});

test("a model's own scaling overrides the fleet's", () => {
  const { kept } = planned("model: x, autoscale: { up-after: 3s }", "autoscale: { up-after: 1s, down-after: 2m }");
  expect(kept?.rules).toMatchObject({ upAfterMs: 3000, downAfterMs: 120_000 });
});
