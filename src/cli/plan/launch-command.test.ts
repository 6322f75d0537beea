/** Layouts of an instance in each engine's own flags, and the commands of several hosts. */
import { expect, test } from "vitest";
import { planRequest as request } from "../../../test/helpers/plan-request.js";
import { makePlan } from "../../plan/plan.js";
import type { Configuration } from "../../plan/request.js";
import { sharingText } from "../../plan/sharing.js";
import { launchesOf, launchOf } from "./launch-command.js";

function launched(engine: "vllm" | "sglang" | "tensorrt-llm", shape: string) {
  const { configurations } = makePlan(request("deepseek-v3", "h200x8", { engine, load: { concurrency: 256 } }));
  const found = configurations.find((each) => sharingText(each) === shape)!;
  const { text, files = {} } = launchOf(found);
  return { found, text, file: Object.values(files).join() };
}

/** Limits apply to one group in vLLM and TensorRT-LLM; SGLang divides its own among groups. */
test("each engine is told the layout in its own words", () => {
  const seats = ({ found }: { readonly found: Configuration }) => found.options.maxNumSeqs;
  const vllm = launched("vllm", "TP4 DP2 EP8");
  expect(vllm.text).toMatch(/--tensor-parallel-size 4 --data-parallel-size 2 --enable-expert-parallel/);
  expect(vllm.text).toContain(`--max-num-seqs ${seats(vllm)} `);
  const sglang = launched("sglang", "TP4 DP2 EP8");
  expect(sglang.text).toMatch(/--tp-size 8 --dp-size 2 --enable-dp-attention --ep-size 8/);
  expect(sglang.text).toContain(`--max-running-requests ${2 * seats(sglang)} `);
  expect(sglang.text).toContain(`--chunked-prefill-size ${2 * sglang.found.options.maxNumBatchedTokens} `);
  const trt = launched("tensorrt-llm", "TP1 DP8 EP8");
  expect(trt.text).toMatch(/--tp_size 8 --ep_size 8/);
  expect(trt.file).toContain("enable_attention_dp: true");
});

test("each host of an instance has a command, and the first one answers", () => {
  const commandsOf = (engine: "vllm" | "sglang" | "tensorrt-llm") =>
    launchesOf(makePlan(request("deepseek-v3", "h100x8", { engine, hosts: 2 })).configurations[0]!).map(
      ({ text }) => text,
    );
  const [head, worker] = commandsOf("vllm");
  expect(head).toMatch(/^vllm serve .*--tensor-parallel-size 8 .*--pipeline-parallel-size 2 --nnodes 2 --node-rank 0 /);
  expect(head).not.toContain("--headless");
  expect(worker).toMatch(/--node-rank 1 --master-addr HEAD_ADDRESS --master-port \d+ --headless$/);
  expect(commandsOf("sglang")[1]).toMatch(/--pp-size 2 --nnodes 2 --node-rank 1 --dist-init-addr HEAD_ADDRESS:\d+$/);
  const trt = commandsOf("tensorrt-llm");
  expect(trt).toHaveLength(1);
  expect(trt[0]).toMatch(
    /^srun -N 2 --ntasks 16 --ntasks-per-node 8 .*trtllm-llmapi-launch trtllm-serve .*--pp_size 2$/,
  );
});
