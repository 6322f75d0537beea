/**
 * Figures of this project's reference documents, in the cases that the documents name. Conditions that a document
 * leaves out are marked as assumed in the source's text.
 */
import type { Family, FamilyOption, PublishedCase, PublishedFigure } from "./published.js";
import type { QuantizationId } from "./quantizations.js";

const IMAGE = "the reference image (vLLM, Llama 3.3 70B)";

const SCENARIOS = [
  [512, 512],
  [1024, 512],
  [2048, 1024],
] as const;
const CONCURRENCIES = [1, 2, 4, 8, 16] as const;

/** Cases without cached prefixes. */
const cells = (
  of: Omit<PublishedCase, "inputTokens" | "outputTokens" | "concurrency">,
  concurrencies: readonly number[],
) =>
  SCENARIOS.flatMap(([inputTokens, outputTokens]) =>
    concurrencies.map((concurrency): PublishedCase => ({ ...of, inputTokens, outputTokens, concurrency })),
  );

const optimised = (concurrencies: readonly number[] = CONCURRENCIES): readonly PublishedCase[] =>
  cells(
    { model: "llama-3.3-70b", hardware: "h100x2", quantization: "fp8", tensorParallel: 2, drafts: true, price: 1 },
    concurrencies,
  );
const baseline = (
  quantization: QuantizationId,
  concurrencies: readonly number[] = CONCURRENCIES,
): readonly PublishedCase[] =>
  cells(
    { model: "llama-3.3-70b", hardware: "h100x4", quantization, tensorParallel: 4, isInStep: true, price: 1 },
    concurrencies,
  );

/** The figure unchanged, then factors from `least` to `most`, a fiftieth apart. */
const scales = (least: number, most: number): readonly FamilyOption[] => [
  { scale: 1 },
  ...Array.from({ length: Math.floor(Math.log(most / least) / Math.log(1.02)) }, (_, i) => ({
    scale: least * 1.02 ** i,
  })),
];

const PRICE: Family = { unknown: "price of a GPU's hour", options: scales(1, 10) };
const HEADLINE = `${IMAGE}: the mean of three scenarios (512/512, 1024/512, 2048/1024) at 1, 2, 4, 8 and 16 at once; 2 × H100 in FP8 with drafts against 4 × H100 with "no optimization". Its costs are of prompts and answers together, and its tokens too: only then do both together imply a usual price of a GPU's hour. The price is not said: that of the other figure`;
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
  "the reference image's table of concurrent instances: one instance of TP8 against four of TP2 on 8 × H100. Weights are not said: the image's FP8 (in 16 bits two of them have no room beside a 70B). Lengths, load and the type of keys are not said: of the image's three scenarios, 256 to 3,000 requests at once and both types, what the table's other figures tell";
const OPEN: Family = {
  unknown: "lengths, load, KV type",
  options: (
    [
      [1024, 512],
      [512, 512],
      [2048, 1024],
    ] as const
  ).flatMap(([inputTokens, outputTokens]) =>
    [3000, 1024, 512, 256].flatMap((concurrency) =>
      (["16", "fp8"] as const).map((kv): FamilyOption => ({ with: { inputTokens, outputTokens, concurrency, kv } })),
    ),
  ),
};

const a100 = (quantization: QuantizationId, count: number): PublishedCase => ({
  model: "llama-3.1-70b",
  hardware: `a100-80x${count}`,
  quantization,
  tensorParallel: 1,
  pipelineParallel: count,
  inputTokens: 512,
  outputTokens: 512,
  concurrency: 1,
});
/** The figures exceed the memory wall that the guide explains, so their common factor is no property of a machine. */
const SCALE: Family = { unknown: "the example's scale", options: scales(0.1, 10) };
const SCALE_OF_100: Family = { ...SCALE };
const A100 =
  "the reference guide, example A: Llama 3 70B, vLLM, A100 80 GB (FP16 on two, INT8 and INT4 on one), answers of 512 tokens; its latencies say that each was alone. The prompt is not said: 512. How two GPUs share is not said either: its commands have tensor-parallel-size 1 and device_map auto, which is layers one after another";

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
  "the reference guide, example B: Llama 3 70B in INT4, vLLM, 100 users, 2K of context; default against FP8 keys and a cached prefix. GPU, split and share are not said: one A100 80 GB, 1536/512 and a half are assumed. KV memory counts what is filled: pages are taken as answers grow";

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

interface Told {
  readonly over?: PublishedFigure["of"] | undefined;
  readonly family?: Family | undefined;
  readonly readings?: readonly string[] | undefined;
}

const speed = (what: string, value: number, of: PublishedFigure["of"], source: string, told: Told = {}) =>
  ({ metric: "output tokens/s", what, value, of, source, ...told }) as const satisfies PublishedFigure;

const gains = ([69.5, 59.1, 41.8, 25.3, 10.6] as const).map((gain, i) => {
  const at = [CONCURRENCIES[i]!];
  const what = `reference image ÷ baseline, ${at[0]} at once`;
  return speed(what, 1 + gain / 100, optimised(at), BY_CONCURRENCY, { over: baseline("fp8", at) });
});

const alone = (what: string, value: number, type: QuantizationId, over?: QuantizationId): PublishedFigure =>
  speed(what, value, a100(type, type === "bf16" ? 2 : 1), A100, {
    family: SCALE,
    readings: over === undefined ? [type] : [type, over],
    over: over === undefined ? undefined : a100(over, 2),
  });

const [SMALL, LARGE, R1] = ["llama-3.1-8b", "llama-3.3-70b", "deepseek-r1-distill-70b"] as const;

/** Output tokens per second of the reference image's table of concurrent instances, by width. */
export const PUBLISHED_SPLITS: Readonly<Record<string, Readonly<Record<number, number>>>> = {
  [`${SMALL} on h100x8`]: { 8: 59_941, 2: 101_804 },
  [`${LARGE} on h100x8`]: { 8: 11_927, 2: 22_948 },
  [`${R1} on h100x8`]: { 8: 12_202, 2: 23_348 },
};

const onEight = (what: string, model: typeof SMALL | typeof LARGE | typeof R1): readonly PublishedFigure[] => {
  const [whole, four] = [instances(model, 8), instances(model, 2)];
  const published = PUBLISHED_SPLITS[`${model} on h100x8`]!;
  const [atWhole, atFour] = [`${model} TP8`, `${model} TP2`];
  return [
    speed(`${what}, 8 × H100: one instance of TP8`, published[8]!, whole, INSTANCES, {
      readings: [atWhole],
      family: OPEN,
    }),
    speed("… four of TP2", published[2]!, four, INSTANCES, { readings: [atFour], family: OPEN }),
    speed("… ratio", published[2]! / published[8]!, four, INSTANCES, {
      over: whole,
      readings: [atWhole, atFour],
      family: OPEN,
    }),
  ];
};

const headline = (metric: PublishedFigure["metric"], what: string, value: number, isOptimised: boolean) =>
  ({
    metric,
    what: `reference image, ${what}`,
    value,
    of: isOptimised ? optimised() : baseline("bf16"),
    source: HEADLINE,
    family: metric === "$/M tokens" ? PRICE : undefined,
  }) satisfies PublishedFigure;

export const REFERENCE: readonly PublishedFigure[] = [
  alone("Llama 3 70B FP16, 2 × A100 80, alone", 45, "bf16"),
  alone("… INT8, one A100 80", 78, "int8"),
  alone("… INT4 (AWQ), one A100 80", 142, "awq"),
  alone("… INT8 ÷ FP16", 1.73, "int8", "bf16"),
  alone("… INT4 ÷ FP16", 3.16, "awq", "bf16"),
  speed("Llama-3 8B FP16, A10G, alone", 32, a10g("bf16"), A10G),
  speed("… AWQ", 68, a10g("awq"), A10G),
  speed("… AWQ ÷ FP16", 2.125, a10g("awq"), A10G, { over: a10g("bf16") }),
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
  speed("70B INT4, 100 at once, default", 142, shared(false, 100), SHARED, { family: SCALE_OF_100 }),
  speed("… FP8 keys, half shared", 310, shared(true, 100), SHARED, { family: SCALE_OF_100 }),
  { metric: "TTFT, ms", what: "… default", value: 420, of: shared(false, 100), source: SHARED },
  { metric: "TTFT, ms", what: "… FP8 keys, half shared", value: 180, of: shared(true, 100), source: SHARED },
  speed(
    "70B, 8B drafts 5 at 78 % ÷ without",
    112 / 45,
    { ...a100("bf16", 2), draftModel: { model: "llama-3.1-8b", depth: 5, acceptance: 0.78 } },
    DRAFTED,
    { over: a100("bf16", 2) },
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
      inputTokens: 1000,
      outputTokens: 1000,
      concurrency: 3000,
    },
    'the reference article: "NVIDIA reports TensorRT-LLM"; lengths and load are not said: 1000/1000 of NVIDIA\'s tables and a flood',
  ),
  ...onEight("8B", SMALL),
  ...onEight("70B", LARGE),
  ...onEight("DeepSeek-R1-Distill 70B", R1),
  ...gains,
  headline("tokens/s, prompts included", "baseline, 15 cells", 823, false),
  headline("tokens/s, prompts included", "optimised, 15 cells", 2000, true),
  headline("TTFT, ms", "baseline", 316.83, false),
  headline("TTFT, ms", "optimised", 187.9, true),
  headline("$/M tokens", "baseline", 5.8, false),
  headline("$/M tokens", "optimised", 1.472, true),
];
