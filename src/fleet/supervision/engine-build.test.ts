/**
 * Builds before an engine's start, with stand-ins for programs that need a GPU: kept, shared, resumed, and repeated
 * when
 * necessary.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { until } from "../../../test/helpers/fake-server.js";
import { isAlive, modelSpec, testFleet } from "../../../test/helpers/fleet.js";
import { someOf } from "../../../test/helpers/long.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { ADAPTERS } from "../adapters/index.js";
import type { CommonEngineOptions } from "../upstream/engine.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import { builtEngine } from "./engine-build.js";
import { environmentOf } from "./launch.js";

const BUILDER = fileURLToPath(new URL("../../../test/helpers/stand-in-builder.mjs", import.meta.url));
const builder = (program: string): string[] => [process.execPath, BUILDER, program];

interface Workshop {
  readonly spec: ModelSpec;
  readonly cache: string;
  readonly gate: string;
  /** Programs that ran, in order. */
  runs(): string[];
  lastPid(): number;
  /** The results' folders, by step. */
  results(): Record<string, string[]>;
}

function workshop(options: Partial<CommonEngineOptions> = {}, env: Record<string, string> = {}): Workshop {
  const root = tempTree({
    "model/config.json": "{}",
    "model/model.safetensors": "weights",
    "bin/nvidia-smi": `#!/bin/sh\nexec "${process.execPath}" "${BUILDER}" nvidia-smi "$@"\n`,
  });
  chmodSync(join(root, "bin/nvidia-smi"), 0o755);
  const cache = join(root, "cache");
  const diary = join(root, "diary");
  const gate = join(root, "gate");
  const entries = (): string[][] =>
    existsSync(diary)
      ? readFileSync(diary, "utf8")
          .trim()
          .split("\n")
          .map((line) => line.split(" "))
      : [];
  const builds = join(cache, "builds/tensorrt-llm");
  const spec = modelSpec({
    engine: "tensorrt-llm",
    options: {
      model: join(root, "model"),
      maxModelLen: 4096,
      buildEngine: { convert: builder("convert"), program: builder("build") },
      ...options,
    },
    env: { MILLRACE_CACHE: cache, STAND_IN_DIARY: diary, PATH: `${join(root, "bin")}:${process.env.PATH}`, ...env },
  });
  return {
    spec,
    cache,
    gate,
    runs: () => entries().map(([program]) => program!),
    lastPid: () => Number(entries().at(-1)?.[1]),
    results() {
      const names = existsSync(builds) ? readdirSync(builds) : [];
      const of = (step: string) => names.filter((name) => name.startsWith(step)).map((name) => join(builds, name));
      return { checkpoint: of("checkpoint"), engine: of("engine") };
    },
  };
}

/** The workshop's model with other options or environment, in the same cache. */
function again({ spec }: Workshop, options: Partial<CommonEngineOptions>, env: Record<string, string> = {}): ModelSpec {
  return { ...spec, options: { ...spec.options, ...options }, env: { ...spec.env, ...env } };
}

/** Starts a fleet of the specification until its instance is ready, and stops it. */
async function serve(spec: ModelSpec): Promise<{ readonly lines: string; readonly log: string }> {
  await using fleet = testFleet();
  fleet.supervisor.addModel(spec);
  await fleet.supervisor.whenReady("m");
  const { logFile } = fleet.supervisor.instances()[0]!;
  return { lines: fleet.lines.join(""), log: existsSync(logFile!) ? readFileSync(logFile!, "utf8") : "" };
}

/** The folder for a specification's engine; builds the engine if necessary. */
async function folderOf(spec: ModelSpec, signal = new AbortController().signal): Promise<string> {
  const env = environmentOf(spec, 0);
  const made = await builtEngine(
    {
      adapter: ADAPTERS["tensorrt-llm"],
      spec,
      env,
      run: async ([program, ...args]) => void execFileSync(program, args, { env }),
      onProgress: () => {},
      onNotice: () => {},
    },
    signal,
  );
  return made!;
}

describe("an engine that is built first", () => {
  it("is built in two steps, is kept, and is loaded by the TensorRT backend", async () => {
    const shop = workshop();
    const { lines, log } = await serve(shop.spec);
    expect(shop.runs()).toEqual(["convert", "build"]);
    expect(log).toContain(`converts ${shop.spec.options.model}`);
    for (const text of ["builds the checkpoint, step 1 of 2", "builds the engine, step 2 of 2"]) {
      expect(lines).toContain(text);
    }
    const { engine } = shop.results();
    expect(engine).toHaveLength(1);
    expect(readFileSync(join(engine![0]!, "rank0.engine"), "utf8")).toBe("build of rank 0\n");
    await serve(shop.spec);
    expect(shop.runs()).toEqual(["convert", "build"]);
    const plan = ADAPTERS["tensorrt-llm"].launch(
      shop.spec.options,
      ["trtllm-serve"],
      { host: "h", port: 1, sparePorts: [2, 3], folder: "f", built: engine![0]! },
      undefined,
    );
    expect(plan.command.slice(1, 2)).toEqual(engine);
    expect(plan.command.join(" ")).toContain(`--backend tensorrt --tokenizer ${shop.spec.options.model} --pp_size 1`);
  });

  it("is loaded as it is without the option", async () => {
    const { buildEngine: _, ...options } = workshop().spec.options;
    const shop = workshop();
    await serve({ ...shop.spec, options });
    expect(shop.runs()).toEqual([]);
  });

  it("is built once for instances that start together", async () => {
    const shop = workshop();
    const spec = { ...shop.spec, instances: 3, env: { ...shop.spec.env, STAND_IN_GATE: shop.gate } };
    await using fleet = testFleet();
    fleet.supervisor.addModel(spec);
    const isWaiting = (): boolean => fleet.lines.filter((line) => line.includes("waits for another")).length >= 2;
    await until(() => shop.runs().includes("build") && isWaiting(), "one builds, two wait");
    writeFileSync(shop.gate, "");
    await until(() => fleet.supervisor.instances().every(({ state }) => state === "ready"), "three are ready");
    expect(shop.runs()).toEqual(["convert", "build"]);
  });

  it("is resumed after the fleet ended in the middle: the complete step is kept, the cut one made again", async () => {
    const shop = workshop();
    {
      await using fleet = testFleet();
      fleet.supervisor.addModel({ ...shop.spec, env: { ...shop.spec.env, STAND_IN_GATE: shop.gate } });
      await until(() => shop.runs().includes("build"), "it builds");
    }
    expect(isAlive(shop.lastPid())).toBe(false);
    expect(shop.results().engine!.map((path) => path.replace(/.*\./, ""))).toEqual(["partial"]);
    await serve(shop.spec);
    expect(shop.runs()).toEqual(["convert", "build", "build"]);
  });

  it("is built again after the builder was killed", async () => {
    const shop = workshop();
    await using fleet = testFleet();
    fleet.supervisor.addModel({ ...shop.spec, env: { ...shop.spec.env, STAND_IN_GATE: shop.gate } });
    await until(() => shop.runs().includes("build"), "it builds");
    process.kill(shop.lastPid(), "SIGKILL");
    await until(() => shop.runs().length === 3, "it builds again");
    writeFileSync(shop.gate, "");
    await fleet.supervisor.whenReady("m");
    expect(shop.runs()).toEqual(["convert", "build", "build"]);
  });

  it("is made again after its process was killed with the lock in its hand", async () => {
    const shop = workshop();
    const folder = await folderOf(shop.spec);
    const dead = spawnSync(process.execPath, ["-e", ""]).pid;
    renameSync(folder, `${folder}.partial`);
    writeFileSync(`${folder}.lock`, `${hostname()} ${dead} of-the-dead ${readlinkSync("/proc/self/ns/pid")}`);
    expect(await folderOf(shop.spec)).toBe(folder);
    expect(shop.runs()).toEqual(["convert", "build", "build"]);
    expect(readdirSync(join(folder, "..")).filter((name) => /lock|partial/.test(name))).toEqual([]);
  });

  it("is made again where a kept file was cut, replaced or lost", async () => {
    const shop = workshop();
    await serve(shop.spec);
    const [engine] = shop.results().engine!;
    const file = join(engine!, "rank0.engine");
    const whole = readFileSync(file);
    for (const damaged of [whole.subarray(0, -1), Buffer.from(whole).fill(0, 3, 4), undefined]) {
      if (damaged === undefined) writeFileSync(join(engine!, "build.json"), "{");
      else writeFileSync(file, damaged);
      const { lines } = await serve(shop.spec);
      expect(lines).toContain("is made again");
      expect(readFileSync(file)).toEqual(whole);
    }
    expect(shop.runs()).toEqual(["convert", "build", "build", "build", "build"]);
  });

  it("fails for good where the builder fails or leaves files out, and says why", async () => {
    for (const [fault, expected] of [
      ["exit", /to end with code 0, got: ended with code 1; its last lines:[\s\S]*no kernel image for this GPU/],
      ["incomplete", /expected config\.json among the files that were built, got none/],
    ] as const) {
      const shop = workshop({}, { STAND_IN_FAULT: fault });
      await using fleet = testFleet();
      fleet.supervisor.addModel(shop.spec);
      await expect(fleet.supervisor.whenReady("m")).rejects.toThrow(expected);
      expect(fleet.supervisor.instances()[0]).toMatchObject({ state: "failed", isGivenUp: true });
      // Under the name neither of a result nor of a partial one.
      expect(shop.results().engine).toEqual([]);
      await serve(again(shop, {}, { STAND_IN_FAULT: "" }));
    }
  });

  it("ends the question for a version at the fleet's end, and does not blame the builder", async () => {
    const shop = workshop();
    const pidFile = join(shop.cache, "../pid");
    const endless = join(shop.cache, "../endless.mjs");
    writeFileSync(
      endless,
      `import { writeFileSync } from "node:fs";
      process.on("SIGTERM", () => {});
      writeFileSync(${JSON.stringify(pidFile)}, String(process.pid));
      setInterval(() => {}, 1000);`,
    );
    const spec = again(shop, { buildEngine: { program: [process.execPath, endless] } });
    const end = new AbortController();
    const building = folderOf(spec, end.signal);
    await until(() => existsSync(pidFile) && readFileSync(pidFile, "utf8") !== "", "the question is asked");
    end.abort();
    await expect(building).rejects.toThrow("was told to end");
    await expect(building).rejects.not.toHaveProperty("code");
    await until(() => !isAlive(Number(readFileSync(pidFile, "utf8"))), "the program has ended");
  });

  it("says what it needs: a version, a GPU, a model that it can tell apart", async () => {
    const shop = workshop();
    const failing = (spec: ModelSpec) => expect(folderOf(spec)).rejects;
    await failing(again(shop, {}, { STAND_IN_VERSION: "" })).toMatchObject({
      code: "build_failed",
      message: expect.stringContaining("to print its version"),
    });
    await failing(again(shop, {}, { STAND_IN_GPU: "No devices were found" })).toMatchObject({
      code: "build_failed",
      message: expect.stringContaining("No devices were found"),
    });
    await failing(again(shop, { model: "org/none" }, { HF_HUB_CACHE: shop.cache })).toMatchObject({
      code: "build_failed",
      message: expect.stringContaining("org/none"),
    });
    expect(shop.runs()).toEqual([]);
  });
});

describe("a build belongs to", () => {
  it("version, GPU, parallelism, quantisation, sizes and the builder's arguments", async () => {
    const shop = workshop();
    const { buildEngine } = shop.spec.options;
    const building = (change: object) => ({ buildEngine: { ...buildEngine, ...change } });
    const variants: readonly (readonly [Partial<CommonEngineOptions>, Record<string, string>?])[] = [
      [{}],
      [{}, { STAND_IN_VERSION: "1.2.1" }],
      [{}, { STAND_IN_GPU: "NVIDIA A100-SXM4-80GB, 8.0" }],
      [{ tensorParallelSize: 2 }],
      [building({ pipelineParallelSize: 2 })],
      [building({ convert: [...builder("convert"), "--qformat", "fp8"] })],
      [{ maxModelLen: 8192 }],
      [{ maxNumSeqs: 64 }],
      [building({ args: ["--gemm_plugin", "auto"] })],
    ];
    const folders: string[] = [];
    const taken = someOf(variants, 4);
    for (const variant of taken) folders.push(await folderOf(again(shop, ...variant)));
    expect(new Set(folders).size).toBe(taken.length);
    const numRuns = shop.runs().length;
    expect(await folderOf(shop.spec)).toBe(folders[0]);
    expect(shop.runs()).toHaveLength(numRuns);
  });

  it("a model's content", async () => {
    const own = workshop();
    const path = join(own.spec.options.model, "model.safetensors");
    const large = Buffer.alloc(2 ** 20, 1);
    // Another model's weights, between the same header and the same end.
    const other = Buffer.from(large).fill(2, 2 ** 17, 2 ** 20 - 2 ** 17);
    const folders: string[] = [];
    for (const weights of ["weights", "Weights", large, other]) {
      writeFileSync(path, weights);
      folders.push(await folderOf(own.spec));
    }
    expect(new Set(folders).size).toBe(4);
  });

  it("a revision of a repository on the hub", async () => {
    const own = workshop();
    const hub = join(own.cache, "hub");
    const refs = join(hub, "models--org--name/refs");
    mkdirSync(refs, { recursive: true });
    const spec = again(own, { model: "org/name", buildEngine: { program: builder("build") } }, { HF_HUB_CACHE: hub });
    const inputs: string[] = [];
    for (const revision of ["aaa", "bbb", "aaa"]) {
      writeFileSync(join(refs, "main"), revision);
      await builtEngine(
        {
          adapter: ADAPTERS["tensorrt-llm"],
          spec,
          env: environmentOf(spec, 0),
          run: async (command) => {
            const into = command[command.indexOf("--output_dir") + 1]!;
            for (const file of ["config.json", "rank0.engine"]) writeFileSync(join(into, file), revision);
          },
          onProgress: () => {},
          onNotice: () => {},
        },
        new AbortController().signal,
      ).then((folder) => inputs.push(folder!));
    }
    expect(inputs[0]).not.toBe(inputs[1]);
    expect(inputs[2]).toBe(inputs[0]);
  });

  it("its sizes alone, where only they differ: the checkpoint is shared", async () => {
    const own = workshop();
    await folderOf(own.spec);
    await folderOf(again(own, { maxNumSeqs: 16 }));
    expect(own.runs()).toEqual(["convert", "build", "build"]);
  });
});
