/**
 * Figures that others published, each with the case of its measurement. No constant of the model comes from them.
 * `test-published.ts` predicts them; docs/background/planning.md explains the errors.
 */
import type { KvTypeId, QuantizationId } from "./quantizations.js";

export interface PublishedCase {
  readonly model: string;
  /** A machine's name, as for `--hardware`. */
  readonly hardware: string;
  readonly quantization: QuantizationId;
  readonly kv?: KvTypeId;
  readonly tensorParallel: number;
  /** Groups of devices that hold consecutive layers; absent: 1. */
  readonly pipelineParallel?: number;
  /** 1: the load is that of one instance; more: several instances share the load. */
  readonly instances?: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Requests at once, over all instances together. */
  readonly concurrency: number;
  readonly prefixHit?: number;
  /** Whether EAGLE-3 drafts. */
  readonly drafts?: boolean;
  /** A smaller model that drafts. */
  readonly draftModel?: { readonly model: string; readonly depth: number; readonly acceptance: number };
  /** Dollars per GPU and hour. */
  readonly price?: number;
  /**
   * All lengths are equal, and a client asks again when its answer ends: requests whose prompts share a step end in the
   * same step, and come again together.
   */
  readonly isInStep?: boolean;
}

export type PublishedMetric =
  | "weight GB"
  | "weight read, ms"
  | "TPOT, ms"
  | "TTFT, ms"
  | "output tokens/s"
  | "tokens/s, prompts included"
  | "$/M tokens"
  | "sequences"
  | "KV GB";

/**
 * Figures of one source and metric that depend on a quantity which the source leaves open. The prediction of one figure
 * takes the value that fits the other figures best.
 */
export interface Family {
  readonly unknown: string;
  /** Possible values of the quantity. Without other figures the first one counts. */
  readonly options: readonly FamilyOption[];
}

export interface FamilyOption {
  /** Changes to the figure's case. */
  readonly with?: Partial<PublishedCase>;
  /** Factor for figures other than ratios; absent: 1. */
  readonly scale?: number;
}

export interface PublishedFigure {
  /**
   * Published numbers from which the figure is computed. Figures that share a number do not help to predict each other.
   * Absent: only the figure's own number.
   */
  readonly readings?: readonly string[] | undefined;
  readonly family?: Family | undefined;
  readonly metric: PublishedMetric;
  readonly what: string;
  readonly value: number;
  /** The measured case; for several cases, the figure is their mean. */
  readonly of: PublishedCase | readonly PublishedCase[];
  /** If present, the figure is the ratio of `of` to this case. */
  readonly over?: PublishedCase | readonly PublishedCase[] | undefined;
  readonly source: string;
}

const wall = (quantization: QuantizationId): PublishedCase => ({
  model: "llama-3.3-70b",
  hardware: "h100",
  quantization,
  tensorParallel: 1,
  inputTokens: 1,
  outputTokens: 1,
  concurrency: 1,
});

const nim = (concurrency: number): PublishedCase => ({
  model: "llama-3.3-70b",
  hardware: "h100x2",
  quantization: "fp8",
  kv: "fp8",
  tensorParallel: 2,
  inputTokens: 5000,
  outputTokens: 500,
  concurrency,
});
const NIM = "NVIDIA NIM 1.8.0, docs.nvidia.com/nim/benchmarking/llm/1.0.0/performance";

const flood = (
  model: string,
  hardware: string,
  quantization: QuantizationId,
  tensorParallel: number,
  inputTokens: number,
  outputTokens: number,
): PublishedCase => ({
  model,
  hardware,
  quantization,
  kv: quantization === "bf16" ? "16" : "fp8",
  tensorParallel,
  inputTokens,
  outputTokens,
  concurrency: 3000,
});
const TRT = "TensorRT-LLM v1.0, docs/source/performance/perf-overview.md";

const old = (hardware: string, concurrency: number, inputTokens: number, outputTokens: number): PublishedCase => ({
  model: "llama-2-70b",
  hardware,
  quantization: "bf16",
  tensorParallel: Number(hardware.split("x").at(-1)),
  inputTokens,
  outputTokens,
  concurrency,
});

const VLLM_CI = "vLLM performance benchmark, build 9515 (H200, batch 8, 32 in, 128 out), latency ÷ 128";
const ci = (model: string, tensorParallel: number): PublishedCase => ({
  model,
  hardware: `h200x${tensorParallel}`,
  quantization: "bf16",
  tensorParallel,
  inputTokens: 32,
  outputTokens: 128,
  concurrency: 8,
});

const SGLANG = "SGLang's documentation: 8B on an H100, one request, 158 tokens/s plain and 373 with EAGLE-3";
const alone8b = (drafts: boolean): PublishedCase => ({
  model: "llama-3.1-8b",
  hardware: "h100",
  quantization: "bf16",
  tensorParallel: 1,
  drafts,
  inputTokens: 100,
  outputTokens: 1000,
  concurrency: 1,
});

const sweep = (concurrency: number): PublishedCase => ({
  model: "llama-3.1-8b",
  hardware: "a100-40",
  quantization: "bf16",
  tensorParallel: 1,
  inputTokens: 1024,
  outputTokens: 128,
  concurrency,
});

const guardrail = (quantization: QuantizationId, tensorParallel: number): PublishedCase => ({
  model: "llama-3.3-70b",
  hardware: "h100x8",
  quantization,
  tensorParallel,
  instances: 8 / tensorParallel,
  inputTokens: 2048,
  outputTokens: 16,
  concurrency: 128,
});
const GUARDRAIL = "ISC High Performance 2026 poster: FP8 guardrails, 2 × TP4 against TP8 on 8 × H100";

export const PUBLISHED: readonly PublishedFigure[] = [
  ...(
    [
      ["bf16", 140],
      ["fp8", 70],
      ["awq", 35],
    ] as const
  ).map(
    ([quantization, value]): PublishedFigure => ({
      metric: "weight GB",
      what: `70B, weights in ${quantization}`,
      value,
      of: wall(quantization),
      source: "rule of thumb: 2, 1 and ½ byte a weight",
    }),
  ),
  ...(
    [
      ["bf16", 47],
      ["int8", 23.5],
      ["awq", 11.8],
    ] as const
  ).map(
    ([quantization, value]): PublishedFigure => ({
      metric: "weight read, ms",
      what: `70B alone at 3 TB/s, ${quantization}`,
      value,
      of: wall(quantization),
      source: "memory wall: the weights ÷ 3 TB/s, no overheads",
    }),
  ),
  { metric: "TPOT, ms", what: "70B FP8, 2 × H100, 5,000 in, alone", value: 18.58, of: nim(1), source: NIM },
  { metric: "TPOT, ms", what: "… 5 at once", value: 21.83, of: nim(5), source: NIM },
  { metric: "TPOT, ms", what: "… 25 at once", value: 38.75, of: nim(25), source: NIM },
  { metric: "TTFT, ms", what: "… alone", value: 406.77, of: nim(1), source: NIM },
  { metric: "TTFT, ms", what: "… 25 at once", value: 688.69, of: nim(25), source: NIM },
  { metric: "output tokens/s", what: "… alone", value: 51.67, of: nim(1), source: NIM },
  { metric: "output tokens/s", what: "… 25 at once", value: 623.4, of: nim(25), source: NIM },
  { metric: "output tokens/s", what: "… 50 at once", value: 814.37, of: nim(50), source: NIM },
  { metric: "output tokens/s", what: "… 250 at once", value: 920.12, of: nim(250), source: NIM },
  {
    metric: "TPOT, ms",
    what: "8B BF16, H200, 8 at once",
    value: 833.4 / 128,
    of: ci("llama-3.1-8b", 1),
    source: VLLM_CI,
  },
  {
    metric: "TPOT, ms",
    what: "70B BF16, 4 × H200, 8 at once",
    value: 2077.5 / 128,
    of: ci("llama-3.1-70b", 4),
    source: VLLM_CI,
  },
  {
    metric: "TPOT, ms",
    what: "Mixtral 8×7B BF16, 2 × H200, 8 at once",
    value: 1917.4 / 128,
    of: ci("mixtral-8x7b", 2),
    source: VLLM_CI,
  },
  ...(
    [
      ["llama-3.1-8b", "h100", "fp8", 1, 1000, 1000, 15_220],
      ["llama-3.1-8b", "h200", "fp8", 1, 1000, 1000, 17_744],
      ["llama-3.1-8b", "h100", "fp8", 1, 2048, 128, 3450],
      ["llama-3.3-70b", "h100x2", "fp8", 2, 1000, 1000, 4205],
      ["llama-3.3-70b", "h200", "fp8", 1, 1000, 1000, 2909],
      ["llama-3.3-70b", "h200", "fp8", 1, 2048, 128, 442],
      ["llama-3.3-70b", "b200", "nvfp4", 1, 1000, 1000, 7007],
      ["llama-3.1-405b", "h100x8", "fp8", 8, 1000, 1000, 2919],
      ["qwen3-235b-a22b", "h200x8", "fp8", 8, 1000, 1000, 23_789],
    ] as const
  ).map(([model, hardware, quantization, tp, input, output, value]): PublishedFigure => {
    const of = flood(model, hardware, quantization, tp, input, output);
    const what = `${model} ${quantization.toUpperCase()}, ${hardware}, ${input}/${output}, flooded`;
    return { metric: "output tokens/s", what, value, of, source: TRT };
  }),
  {
    metric: "output tokens/s",
    what: "Llama-2-70B FP16, 4 × A100 80, 128/2048, 240 at once",
    value: 4 * 525,
    of: old("a100-80x4", 240, 128, 2048),
    source: "TensorRT-LLM v0.6.1, docs/source/performance.md",
  },
  {
    metric: "output tokens/s",
    what: "Llama-2-70B FP16, 8 × A100 40, 1024/1024, 24 at once",
    value: (24 * 1024) / 38.97,
    of: old("a100-40x8", 24, 1024, 1024),
    source: "github.com/rkooo567/llm_benchmark (2023, Triton with FasterTransformer)",
  },
  {
    metric: "TTFT, ms",
    what: "Llama-2-70B FP16, 4 × A100 80, 2,048 in, alone",
    value: 377,
    of: { ...old("a100-80x4", 1, 2048, 2) },
    source: "TensorRT-LLM v0.5, docs/source/performance.md",
  },
  { metric: "output tokens/s", what: "8B BF16, H100, alone", value: 158, of: alone8b(false), source: SGLANG },
  { metric: "output tokens/s", what: "… with EAGLE-3", value: 373, of: alone8b(true), source: SGLANG },
  {
    metric: "output tokens/s",
    what: "8B BF16, A100 40, 1024/128: 8 at once ÷ alone",
    value: 6.6,
    of: sweep(8),
    over: sweep(1),
    source: "johnmusgrave.com, vLLM 0.23; of the same sweep, the speed of one alone set a constant, its gain did not",
  },
  {
    metric: "output tokens/s",
    what: "70B FP8, 8 × H100: 2 × TP4 ÷ TP8, prompts of 2,048",
    value: 1.273,
    of: guardrail("fp8", 4),
    over: guardrail("fp8", 8),
    source: GUARDRAIL,
  },
  {
    metric: "output tokens/s",
    what: "70B BF16, 8 × H100: 2 × TP4 ÷ TP8, prompts of 2,048",
    value: 1.181,
    of: guardrail("bf16", 4),
    over: guardrail("bf16", 8),
    source: GUARDRAIL,
  },
];
