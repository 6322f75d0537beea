/** Figures of the documents that this project set out from, in the cases that they name themselves; what a document leaves out is in the source's words here, as assumed. */
import type { PublishedCase, PublishedFigure } from "./published.js";
import type { QuantizationId } from "./quantizations.js";

const IMAGE = "the reference image (vLLM, Llama 3.3 70B)";

const SCENARIOS = [
  [512, 512],
  [1024, 512],
  [2048, 1024],
] as const;
const CONCURRENCIES = [1, 2, 4, 8, 16] as const;

/** No prefix is cached. */
const cells = (
  of: Omit<PublishedCase, "inputTokens" | "outputTokens" | "concurrency">,
  concurrencies: readonly number[],
) =>
  SCENARIOS.flatMap(([inputTokens, outputTokens]) =>
    concurrencies.map((concurrency): PublishedCase => ({ ...of, inputTokens, outputTokens, concurrency })),
  );

const optimised = (concurrencies: readonly number[] = CONCURRENCIES): readonly PublishedCase[] =>
  cells(
    { model: "llama-3.3-70b", hardware: "h100x2", quantization: "fp8", tensorParallel: 2, drafts: true, price: 5.3 },
    concurrencies,
  );
const baseline = (
  quantization: QuantizationId,
  concurrencies: readonly number[] = CONCURRENCIES,
): readonly PublishedCase[] =>
  cells({ model: "llama-3.3-70b", hardware: "h100x4", quantization, tensorParallel: 4, price: 4.3 }, concurrencies);

const HEADLINE = `${IMAGE}: the mean of three scenarios (512/512, 1024/512, 2048/1024) at 1, 2, 4, 8 and 16 at once; 2 × H100 in FP8 with drafts against 4 × H100 with "no optimization". The hour's price is not said: 5.30 and 4.30 dollars a GPU are what its tokens and costs imply`;
const BY_CONCURRENCY = `${IMAGE}, figure 4: the same three scenarios; its baseline is "TP=4, FP8 only"`;

const instances = (model: string, tensorParallel: number): PublishedCase => ({
  model,
  hardware: "h100x8",
  quantization: "fp8",
  tensorParallel,
  instances: 8 / tensorParallel,
  inputTokens: 1024,
  outputTokens: 512,
  concurrency: 3000,
});
const INSTANCES =
  "the reference image's table of concurrent instances: one instance of TP8 against four of TP2 on 8 × H100. Weights, lengths and load are not said: the image's FP8 (in 16 bits two of them have no room beside a 70B), 1024/512 and a flood are assumed";

const a100 = (quantization: QuantizationId, count: number): PublishedCase => ({
  model: "llama-3.1-70b",
  hardware: `a100-80x${count}`,
  quantization,
  tensorParallel: count,
  inputTokens: 512,
  outputTokens: 512,
  concurrency: 1,
});
const A100 =
  "the reference guide, example A: Llama 3 70B, vLLM, A100 80 GB (FP16 on two, INT8 and INT4 on one), answers of 512 tokens; its latencies say that each was alone. The prompt is not said: 512";

const shared = (isOptimised: boolean, concurrency: number): PublishedCase => ({
  model: "llama-3.1-70b",
  hardware: "a100-80",
  quantization: "awq",
  tensorParallel: 1,
  kv: isOptimised ? "fp8" : "16",
  prefixHit: isOptimised ? 0.5 : 0,
  inputTokens: 1536,
  outputTokens: 512,
  concurrency,
});
const SHARED =
  "the reference guide, example B: Llama 3 70B in INT4, vLLM, 100 users, 2K of context; default against FP8 keys and a cached prefix. GPU, split and share are not said: one A100 80 GB, 1536/512 and a half are assumed";

const DRAFTED =
  "the reference guide, example C: Llama 3 70B with Llama 3 8B drafting 5, temperature 0, 78 % accepted. The GPUs are not said: two A100 80 GB, whose 45 tokens/s it starts from";

const a10g = (quantization: QuantizationId): PublishedCase => ({
  model: "llama-3.1-8b",
  hardware: "a10g",
  quantization,
  tensorParallel: 1,
  inputTokens: 512,
  outputTokens: 256,
  concurrency: 1,
});
const A10G = "the reference article: Llama-3 8B on an A10G, decoding; lengths are not said: 512/256, alone";

const speed = (what: string, value: number, of: PublishedFigure["of"], source: string, over?: PublishedFigure["of"]) =>
  ({
    metric: "output tokens/s",
    what,
    value,
    of,
    source,
    over,
  }) as const satisfies PublishedFigure;

const gains = ([69.5, 59.1, 41.8, 25.3, 10.6] as const).map((gain, i) => {
  const at = [CONCURRENCIES[i]!];
  const what = `reference image ÷ baseline, ${at[0]} at once`;
  return speed(what, 1 + gain / 100, optimised(at), BY_CONCURRENCY, baseline("fp8", at));
});

export const REFERENCE: readonly PublishedFigure[] = [
  speed("Llama 3 70B FP16, 2 × A100 80, alone", 45, a100("bf16", 2), A100),
  speed("… INT8, one A100 80", 78, a100("int8", 1), A100),
  speed("… INT4 (AWQ), one A100 80", 142, a100("awq", 1), A100),
  speed("… INT8 ÷ FP16", 1.73, a100("int8", 1), A100, a100("bf16", 2)),
  speed("… INT4 ÷ FP16", 3.16, a100("awq", 1), A100, a100("bf16", 2)),
  speed("Llama-3 8B FP16, A10G, alone", 32, a10g("bf16"), A10G),
  speed("… AWQ", 68, a10g("awq"), A10G),
  speed("… AWQ ÷ FP16", 2.125, a10g("awq"), A10G, a10g("bf16")),
  { metric: "KV GB", what: "70B, 64 sequences of 2,048", value: 32, of: shared(false, 64), source: SHARED },
  { metric: "KV GB", what: "… FP8, half shared", value: 12, of: shared(true, 64), source: SHARED },
  {
    metric: "sequences",
    what: "70B INT4, one A100 80: of 2,048 tokens",
    value: 64,
    of: shared(false, 100),
    source: SHARED,
  },
  { metric: "sequences", what: "… FP8 keys, half shared", value: 180, of: shared(true, 100), source: SHARED },
  speed("70B INT4, 100 at once, default", 142, shared(false, 100), SHARED),
  speed("… FP8 keys, half shared", 310, shared(true, 100), SHARED),
  { metric: "TTFT, ms", what: "… default", value: 420, of: shared(false, 100), source: SHARED },
  { metric: "TTFT, ms", what: "… FP8 keys, half shared", value: 180, of: shared(true, 100), source: SHARED },
  speed(
    "70B, 8B drafts 5 at 78 % ÷ without",
    112 / 45,
    { ...a100("bf16", 2), draftModel: { model: "llama-3.1-8b", depth: 5, acceptance: 0.78 } },
    DRAFTED,
    a100("bf16", 2),
  ),
  speed(
    "Llama-3 70B FP8, 8 × A100 80, 32 at once",
    8500,
    {
      model: "llama-3.1-70b",
      hardware: "a100-80x8",
      quantization: "fp8",
      tensorParallel: 8,
      inputTokens: 512,
      outputTokens: 512,
      concurrency: 32,
    },
    "the reference article: vLLM at batch size 32; lengths are not said: 512/512. The GPU has no FP8: its weights are unpacked",
  ),
  speed(
    "Llama-3 70B FP8, 8 × H100, flooded",
    12_000,
    {
      model: "llama-3.1-70b",
      hardware: "h100x8",
      quantization: "fp8",
      kv: "fp8",
      tensorParallel: 8,
      inputTokens: 1024,
      outputTokens: 512,
      concurrency: 3000,
    },
    "the reference article: TensorRT-LLM; lengths and load are not said: 1024/512 and a flood",
  ),
  speed("8B, 8 × H100: one instance of TP8", 59_941, instances("llama-3.1-8b", 8), INSTANCES),
  speed("… four of TP2", 101_804, instances("llama-3.1-8b", 2), INSTANCES),
  speed("… ratio", 1.698, instances("llama-3.1-8b", 2), INSTANCES, instances("llama-3.1-8b", 8)),
  speed("70B, 8 × H100: one instance of TP8", 11_927, instances("llama-3.3-70b", 8), INSTANCES),
  speed("… four of TP2", 22_948, instances("llama-3.3-70b", 2), INSTANCES),
  speed("… ratio", 1.924, instances("llama-3.3-70b", 2), INSTANCES, instances("llama-3.3-70b", 8)),
  speed(
    "… ratio, DeepSeek-R1-Distill 70B",
    1.913,
    instances("llama-3.3-70b", 2),
    INSTANCES,
    instances("llama-3.3-70b", 8),
  ),
  ...gains,
  speed("reference image, baseline, 15 cells", 823, baseline("bf16"), HEADLINE),
  speed("reference image, optimised, 15 cells", 2000, optimised(), HEADLINE),
  { metric: "TTFT, ms", what: "reference image, baseline", value: 316.83, of: baseline("bf16"), source: HEADLINE },
  { metric: "TTFT, ms", what: "reference image, optimised", value: 187.9, of: optimised(), source: HEADLINE },
  { metric: "$/M output", what: "reference image, baseline", value: 5.8, of: baseline("bf16"), source: HEADLINE },
  { metric: "$/M output", what: "reference image, optimised", value: 1.472, of: optimised(), source: HEADLINE },
];
