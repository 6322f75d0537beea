/** From options to command lines: each engine's own names, shares of cores and GPUs, and notices of omitted options. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { ADAPTERS } from "../adapters/index.js";
import type { CommonEngineOptions, EngineName } from "../upstream/engine.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import { prepareLaunch, shareOf } from "./launch.js";

const spec = (engine: EngineName, options: Partial<CommonEngineOptions>, rest: Partial<ModelSpec> = {}): ModelSpec => ({
  name: "m",
  engine,
  program: ["engine"],
  options: { model: "a/model", ...options },
  args: [],
  env: {},
  host: "127.0.0.1",
  instances: 2,
  ...rest,
});

function launch(model: ModelSpec, slot = 0, folder = tempTree({})) {
  return prepareLaunch(ADAPTERS[model.engine], model, slot, {
    host: model.host,
    port: 8101,
    sparePorts: [8102, 8103],
    folder,
  });
}

describe("a command line", () => {
  it("has an existing folder for TGI's sockets", async () => {
    const folder = join(tempTree({}), "m-0");
    const { command } = await launch(spec("tgi", {}), 0, folder);
    expect(command).toContain(join(folder, "shard"));
    expect(existsSync(folder)).toBe(true);
  });

  it("has vLLM's flags, the model's name in the fleet, and the configuration's own flags last", async () => {
    const { command, env, notices } = await launch(
      spec(
        "vllm",
        {
          maxNumSeqs: 8,
          kvCacheMemoryBytes: 1e9,
          apiKey: "sk",
          speculativeConfig: { method: "ngram" },
          enablePrefixCaching: false,
        },
        { args: ["--seed", "1"], env: { A: "b" } },
      ),
    );
    expect(command.join(" ")).toBe(
      'engine a/model --host 127.0.0.1 --port 8101 --max-num-seqs 8 --kv-cache-memory-bytes 1000000000 --speculative-config {"method":"ngram"} --no-enable-prefix-caching --served-model-name m --seed 1',
    );
    expect(env).toMatchObject({ VLLM_API_KEY: "sk", A: "b" });
    expect(env.VLLM_SERVER_DEV_MODE).toBeUndefined();
    expect(notices).toEqual([]);
  });

  it("has a place for vLLM's cache events, unless the arguments may give another", async () => {
    const folder = tempTree({});
    const { command, cacheEvents, notices } = await launch(
      spec("vllm", {}, { args: ["--config-format=hf"] }),
      0,
      folder,
    );
    expect(cacheEvents?.events).toBe(`ipc://${join(folder, "cache-events.sock")}`);
    expect([command.includes("--kv-events-config"), notices]).toEqual([true, []]);
    for (const own of ["--config", "--config=vllm.yaml", "--kv_events_config={}", "--data-parallel-size", "-dp"]) {
      expect((await launch(spec("vllm", {}, { args: [own] }))).cacheEvents, own).toBeUndefined();
    }
    const deep = await launch(spec("vllm", {}), 0, join(folder, "d".repeat(100)));
    expect([deep.cacheEvents, deep.notices.join()]).toEqual([undefined, expect.stringContaining("routing guesses")]);
  });

  it("reports options for which an engine has no flag", async () => {
    const { command, notices } = await launch(spec("ollama", { quantization: "awq" }));
    expect(command).toEqual(["engine"]);
    expect(notices).toEqual(["ollama has no flag for quantization: it uses its own default"]);
  });

  it("enables vLLM's sleep mode if instances may sleep, and warns if other machines can reach it", async () => {
    const sleepy = await launch(spec("vllm", {}, { scaleDown: "sleep", host: "0.0.0.0" }));
    expect(sleepy.command).toContain("--enable-sleep-mode");
    expect(sleepy.env.VLLM_SERVER_DEV_MODE).toBe("1");
    expect(sleepy.notices.join()).toContain("0.0.0.0");
    // No flag for an engine without sleep.
    expect((await launch(spec("millrace", {}, { scaleDown: "sleep" }))).notices).toEqual([]);
  });

  it("puts options without a flag into TensorRT-LLM's file", async () => {
    const folder = tempTree({});
    const { command } = await launch(
      spec("tensorrt-llm", {
        kvCacheDtype: "fp8",
        enablePrefixCaching: false,
        speculativeConfig: { method: "eagle3", model: "d", num_speculative_tokens: 3 },
      }),
      0,
      folder,
    );
    const file = join(folder, "trtllm.yaml");
    expect(command).toContain(file);
    expect(readFileSync(file, "utf8")).toBe(
      "return_perf_metrics: true\nenable_iter_perf_stats: true\nkv_cache_config:\n  dtype: fp8\n  enable_block_reuse: false\nspeculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 3\n  speculative_model: d\n",
    );
  });

  it("keeps TensorRT-LLM's lookups to a request's own text", async () => {
    const folder = tempTree({});
    await launch(
      spec("tensorrt-llm", { speculativeConfig: { method: "ngram", num_speculative_tokens: 4 } }),
      0,
      folder,
    );
    expect(readFileSync(join(folder, "trtllm.yaml"), "utf8")).toContain(
      "speculative_config:\n  decoding_type: NGram\n  max_draft_len: 4\n  is_public_pool: false\n",
    );
  });

  it("makes SGLang serve lower priority values first, like vLLM", async () => {
    const { command } = await launch(spec("sglang", { schedulingPolicy: "priority" }));
    expect(command.join(" ")).toContain("--enable-priority-scheduling --schedule-low-priority-values-first");
  });

  it("limits SGLang's draft to one branch", async () => {
    const { command } = await launch(
      spec("sglang", { speculativeConfig: { method: "eagle", model: "d", num_speculative_tokens: 3 } }),
    );
    expect(command.join(" ")).toContain(
      "--speculative-algorithm EAGLE --speculative-draft-model-path d --speculative-num-draft-tokens 4 --speculative-num-steps 3 --speculative-eagle-topk 1",
    );
  });

  it("uses the flags that llama-server's --help lists", () => {
    const options = { model: "a", kvCacheDtype: "int8", speculativeConfig: { model: "d", num_speculative_tokens: 5 } };
    const place = { host: "h", port: 1, sparePorts: [2, 3], folder: "f" } as const;
    const words = (help: string | undefined) =>
      ADAPTERS["llama-server"]
        .launch(options, ["s"], place, help)
        .command.join(" ")
        .replace("s --host h --port 1 --metrics -m a ", "");
    const current =
      "-fa,   --flash-attn [on|off|auto]  set\n--spec-type none,draft-simple\n--draft, --draft-max N   the argument has been removed. use\n      --spec-draft-n-max\n";
    const old = "-fa,   --flash-attn    enable\n--draft-max, --draft, --draft-n N   number of tokens\n";
    expect(words(current)).toBe(
      "-ctk q8_0 -ctv q8_0 -fa on --spec-type draft-simple --spec-draft-model d --spec-draft-n-max 5",
    );
    expect(words(undefined)).toBe(words(current));
    expect(words(old)).toBe("-ctk q8_0 -ctv q8_0 -fa --model-draft d --draft-max 5");
  });

  it("hides the server's own keys from the engine", async () => {
    process.env.MILLRACE_API_KEY = "sk-of-the-gateway";
    try {
      expect((await launch(spec("millrace", {}))).env.MILLRACE_API_KEY).toBeUndefined();
      expect((await launch(spec("millrace", { apiKey: "sk-own" }))).env.MILLRACE_API_KEY).toBe("sk-own");
    } finally {
      delete process.env.MILLRACE_API_KEY;
    }
  });

  it("does not exist for servers that are only attached", async () => {
    await expect(launch(spec("openai", {}))).rejects.toMatchObject({ code: "invalid_option" });
  });
});

describe("cores and GPUs", () => {
  it("are divided among the instances", async () => {
    const machine = { cores: [[0], [1], [2], [3]], gpus: ["0", "1", "2", "3"], gpusPerInstance: 2 };
    const { command, env } = await launch(spec("millrace", {}, machine), 1);
    if (process.platform === "linux") expect(command.slice(0, 4)).toEqual(["taskset", "-c", "2,3", "engine"]);
    expect(env.CUDA_VISIBLE_DEVICES).toBe("2,3");
    expect((await launch(spec("millrace", {}, machine), 2)).env.CUDA_VISIBLE_DEVICES).toBe("0,1");
    const deep = { tensorParallelSize: 2, buildEngine: { pipelineParallelSize: 2 } };
    const piped = spec("tensorrt-llm", deep, { gpus: ["0", "1", "2", "3", "4", "5", "6", "7"] });
    expect((await launch(piped, 1)).env.CUDA_VISIBLE_DEVICES).toBe("4,5,6,7");
    expect(
      (await launch(spec("vllm", { tensorParallelSize: 4 }, { gpus: machine.gpus }), 1)).env.CUDA_VISIBLE_DEVICES,
    ).toBe("0,1,2,3");
  });

  it("stay whole, and cores without CPUs do not pin an instance", async () => {
    const cores = [[0, 3], [1, 4], [2]];
    const { command } = await launch(spec("millrace", {}, { cores, coresPerInstance: 1 }), 1);
    if (process.platform === "linux") expect(command.slice(0, 3)).toEqual(["taskset", "-c", "1,4"]);
    expect((await launch(spec("millrace", {}, { cores: [[], []] }))).command[0]).toBe("engine");
  });

  it("belong to one instance each, while there are enough", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(), { minLength: 1 }), fc.integer({ min: 0, max: 9 }), (all, perInstance) => {
        const size = Math.max(1, Math.min(perInstance, all.length));
        const numShares = Math.floor(all.length / size);
        const shares = Array.from({ length: numShares }, (_, slot) => shareOf(all, perInstance, slot));
        expect(shares.every((share) => share.length === size)).toBe(true);
        expect(shares.flat()).toEqual(all.slice(0, numShares * size));
        expect(shareOf(all, perInstance, numShares)).toEqual(shares[0]);
      }),
    );
  });
});
