/**
 * Every constant of the speed model, with its source. `assumed` marks judgement; a source that set one of these is not
 * used to check the model.
 */

interface Constant {
  readonly value: number;
  readonly source: string;
}

const cited = (value: number, source: string): Constant => ({ value, source });
const assumed = (value: number, why: string): Constant => ({ value, source: `assumed: ${why}` });

/** Efficiencies that calibration can replace. */
export interface Efficiencies {
  /** Share of the memory bandwidth that decoding reaches when it reads weights and KV. */
  readonly memoryShare: number;
  /** Share of the peak arithmetic that large products reach. */
  readonly computeShare: number;
  /** Seconds per step, independent of its size. */
  readonly stepSeconds: number;
  readonly secondsPerLayer: number;
  /** Seconds per sequence and step: sampling, bookkeeping, delivery. */
  readonly secondsPerSequence: number;
}

export const GPU_CONSTANTS = {
  memoryShare: cited(
    0.82,
    "Llama-3.1-8B in BF16 on an A100 40 GB decodes at 75 tokens/s alone (johnmusgrave.com, vLLM 0.23): 13.3 ms, of which the overheads below take 1.5",
  ),
  computeShare: cited(
    0.65,
    "16 bits: LLaMA-7B, 2,048 prompt tokens in 133 ms on an A100 (TensorRT-LLM v0.5's table) is 66 % of its peak",
  ),
  computeShare8: cited(
    0.45,
    "8 bits: the same in 36 ms on an H100 and 73 ms on an L40S in FP8 is 39 % and 52 % of their peaks; 4 bits the same for want of a figure",
  ),
  stepSeconds: assumed(
    0.5e-3,
    "scheduling and launching a captured step; kept small by engines that prepare the next one meanwhile",
  ),
  secondsPerLayer: assumed(30e-6, "some ten small kernels a layer between the products, about 3 µs each"),
  secondsPerSequence: assumed(10e-6, "sampling and bookkeeping per sequence"),
  allReduceShare: cited(
    0.77,
    "all-reduce over NVLink reaches 77 % of the link (waynehacking8.github.io, 4 × H100, nccl-tests)",
  ),
  allReducePcieShare: assumed(0.5, "all-reduce over PCIe, both directions through the host's bridges"),
  nvlinkSeconds: assumed(12e-6, "one small all-reduce among NVLink GPUs with the engines' own kernels"),
  pcieSeconds: assumed(40e-6, "one small all-reduce over PCIe"),
  networkSeconds: assumed(30e-6, "one small message between hosts over RDMA"),
  networkBytesPerS: assumed(50e9, "one port of 400 Gbit/s on each host: InfiniBand NDR, or RoCE"),
  overlap: assumed(4, "exponent joining memory and arithmetic time: ∞ would be a perfect overlap, 1 none"),
  memoryUtilization: cited(0.92, "vLLM's default --gpu-memory-utilization"),
  runtimeBytes: assumed(1.5e9, "CUDA context, captured graphs, communication buffers"),
} as const satisfies Readonly<Record<string, Constant>>;

export const CPU_CONSTANTS = {
  memoryShare: cited(
    0.85,
    "one-row products of 5632 × 2048 in Q4_0, Q8_0 and Q4_K read at 79 to 102 % of the probe (docs/background/benchmarks/kernels.md)",
  ),
  computeShare: cited(
    0.94,
    "products of 512 rows reach 93 to 100 % of the probe (docs/background/benchmarks/kernels.md), those of 128 rows in Q8_0 99 %",
  ),
  computeShare4: cited(
    0.85,
    "products of 128 rows, as many as a chunk of a prompt has, reach 84 % in Q4_0 and 87 % in Q4_K (docs/background/benchmarks/kernels.md): unpacking four bits has fewer rows to serve",
  ),
  attentionShare: cited(
    0.56,
    "prefill attention of 512 tokens reaches 56 % of the float probe (docs/background/benchmarks/kernels.md)",
  ),
  stepSeconds: assumed(0.1e-3, "one message and one submit per step"),
  secondsPerLayer: assumed(10e-6, "norms, rotations and barriers of a layer"),
  secondsPerSequence: assumed(50e-6, "sampling over the vocabulary"),
  secondsPerTokenLayer: assumed(
    2.5e-6,
    "norms, rotations, activation rounding and KV writes of a prompt's token in a layer, for width 2048",
  ),
  overlap: assumed(2, "few cores, loads and arithmetic in the same instructions' stream"),
  memoryUtilization: assumed(0.85, "the system, the page cache and the tokenizer need some"),
  runtimeBytes: assumed(0.3e9, "the process itself"),
} as const satisfies Readonly<Record<string, Constant>>;

/** Speed of an engine's steps on GPUs relative to vLLM's. Predictions of published figures leave these factors out. */
export const ENGINE_SPEED = {
  vllm: cited(1, "the share of the bandwidth above is of vLLM 0.23 (johnmusgrave.com)"),
  sglang: cited(
    1.1,
    "an 8B alone on an H100 gives 158 tokens/s (SGLang's documentation), where the model says 144; the reference article has 1.3 under load",
  ),
  "tensorrt-llm": cited(
    1,
    "nine floods of its own tables (v1.0) are predicted at 1 with errors from −17 to +40 %, in the middle 0; the reference documents have 1.3 to 1.5",
  ),
  tgi: assumed(
    0.9,
    "one sweep of a 70B on 4 × A100 has 0.89 to 0.93 of vLLM at 1 to 64 at once; TGI is only maintained",
  ),
  "llama-server": assumed(1, "no comparable figure on GPUs is known; under load it is slower than this"),
  ollama: assumed(1, "it starts llama.cpp's server"),
  millrace: assumed(1, "it computes on CPUs, whose constants are its own"),
} as const satisfies Readonly<Record<string, Constant>>;

/** Experts in the host's memory, with one GPU. */
export const HOST_EXPERTS = {
  bytesPerS: assumed(89.6e9, "two channels of DDR5-5600, as desktops have"),
  memoryShare: cited(
    0.6,
    "gpt-oss-120b with all experts on a 14900K decodes at 25.6 tokens/s (gokawiil.com/article/74814): 1.9 GB of experts a token, of which the GPU's part takes 5 of 39 ms",
  ),
  busBytesPerS: assumed(25e9, "PCIe 4.0 ×16, of whose 31.5 GB/s copies from pinned memory reach four fifths"),
  memoryUtilization: assumed(0.9, "the system and the rest of the file need some"),
  mostHostRows: cited(32, "llama.cpp brings experts to the GPU for steps of 32 rows and more (ggml-cuda's op offload)"),
} as const satisfies Readonly<Record<string, Constant>>;

/** Speculative decoding. */
export const SPECULATION = {
  eagle3Acceptance: cited(
    0.7,
    "acceptance lengths 2.5 to 4.0 at depth 5 for Llama-3.3-70B (SpecBundle): about 0.65 to 0.85 a token",
  ),
  eagle3Depth: cited(3, "depth of the engines' own examples"),
  eagle3LayerShare: assumed(1, "the drafter is one layer of the model, with its output matrix"),
  eagle3VocabShare: assumed(0.25, "EAGLE-3 drafts from a reduced vocabulary"),
  smallestGain: assumed(1.1, "below a tenth the gain is within what acceptance varies by"),
  lookupDepth: cited(4, "depth of vLLM's own example of n-gram speculation"),
  lookupSeconds: assumed(0.1e-3, "some small kernels that scan each sequence's tokens on the GPU (vLLM 0.33)"),
  mostLoss: assumed(1.1, "rows of wrong drafts may cost a tenth at most where nothing is known of the texts"),
} as const satisfies Readonly<Record<string, Constant>>;

export const QUALITY = {
  smallestGain: assumed(1.1, "what costs precision must win a tenth at least, or it is not worth checking"),
  smallestRecovery: cited(
    98,
    "a change that costs more than 2 % is rolled back (the tuning loop's own limit is 2 to 3 %)",
  ),
  longContext: cited(
    65_536,
    "4-bit weights lose up to 59 % on long contexts (arXiv 2505.20276): not above this length",
  ),
} as const satisfies Readonly<Record<string, Constant>>;

export const KV_SHARE_OF_ONE = assumed(
  0.9,
  "of the KV memory for one longest sequence: an engine that finds less memory than predicted, and no room for one, does not start",
);

/** Training a smaller model to a task. */
export const DISTILLATION = {
  usd: assumed(15_000, "three weeks of an engineer at $5,000; the reference guide has two to four weeks"),
  mostMonths: cited(3, "it is worth it where it pays back within three months (the reference guide)"),
} as const satisfies Readonly<Record<string, Constant>>;

/** Constants of fleets: requests and streamed tokens per second of one gateway, and the reserve of capacity. */
export const FLEET = {
  gatewayRequestsPerS: cited(
    7000,
    "small requests a second through one gateway on the slowest of the machines measured (docs/background/benchmarks/gateway.md)",
  ),
  gatewayTokensPerS: assumed(200_000, "streamed tokens through one gateway of four cores, 20 µs each; not measured"),
  mostLoad: cited(0.8, "instances are added above 80 % of what they hold (the reference guide's autoscaling rule)"),
  zones: assumed(3, "as many as the regions of large clouds have"),
  hostWatts: cited(1.82, "a DGX H100 takes up to 10.2 kW for eight GPUs of 700 W (NVIDIA DGX H100 datasheet)"),
  startSeconds: cited(300, "loading weights takes two to five minutes (the reference guide)"),
} as const satisfies Readonly<Record<string, Constant>>;
