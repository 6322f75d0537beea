/**
 * Experts of some layers in the host's memory, where its CPU computes them, and the rest on one GPU: llama.cpp's
 * `--n-cpu-moe`. Models larger than the GPU run, at the speed of the host's memory.
 */
import { expertsOf, numExpertLayers, weightBytesPerStep } from "../model/description/sizes.js";
import { HOST_EXPERTS } from "./data/constants.js";
import type { PlannedEngine } from "./data/engines.js";
import { KV_TYPES, type PlannedKvType, type Quantization } from "./data/quantizations.js";
import { fits, gibibytes, instanceOf, smallestDemand } from "./fitting.js";
import { CHUNKS } from "./memory.js";
import type { Choice, PlanRequest } from "./request.js";
import { weightChoices } from "./rules.js";
import type { Sharing } from "./sharing.js";

const GIB = 2 ** 30;

/** Bytes of the experts of `numLayers` layers. */
function expertBytes({ model }: PlanRequest, quantization: Quantization, numLayers: number): number {
  const [all, none] = [Number.POSITIVE_INFINITY, 0].map((rows) => weightBytesPerStep(model, quantization, rows));
  return ((all! - none!) * numLayers) / Math.max(1, numExpertLayers(model));
}

/** Whether the engine can put experts into the host's memory, for a request with one GPU. */
const canUseHost = ({ model, machine }: PlanRequest, engine: PlannedEngine): boolean =>
  engine === "llama-server" && machine.kind === "gpu" && machine.count === 1 && expertsOf(model) !== undefined;

/**
 * The fewest host layers that leave room on the GPU for one sequence, and the fewest that leave room for the whole
 * load; empty where all experts fit.
 */
export function hostSharings(
  request: PlanRequest,
  engine: PlannedEngine,
  quantization: Quantization,
  kv: PlannedKvType,
  required: number,
): readonly Sharing[] {
  const { model, machine, hostMemoryBytes = 0, load } = request;
  if (!canUseHost(request, engine) || hostMemoryBytes === 0) return [];
  const numLayers = numExpertLayers(model);
  const most = Math.floor(
    (numLayers * hostMemoryBytes * HOST_EXPERTS.memoryUtilization.value) /
      expertBytes(request, quantization, numLayers),
  );
  const concurrency = "concurrency" in load ? load.concurrency : 1;
  const demands = [
    { tokens: required, demand: smallestDemand(machine) },
    { tokens: required * concurrency, demand: { maxNumBatchedTokens: CHUNKS.gpu[2], maxNumSeqs: concurrency } },
  ];
  const fewest = demands.flatMap(({ tokens, demand }) => {
    for (let count = 0; count <= Math.min(most, numLayers); count++) {
      const sharing = { tensorParallel: 1, numHostLayers: count };
      // llama.cpp's slots have equal room, so all of them together need as much as one long sequence.
      if (fits(instanceOf(request, { quantization, kv, ...sharing }), tokens, demand)) return [count];
    }
    return [];
  });
  return [...new Set(fewest)]
    .filter((count) => count > 0)
    .map((numHostLayers) => ({ tensorParallel: 1, numHostLayers }));
}

/** The host memory with which the model would fit, also where some is given; empty: no amount helps. */
export function hostThatFits(request: PlanRequest, required: number): readonly string[] {
  if (request.machine.kind === "cpu") return [];
  const asked: PlanRequest = { ...request, engine: "llama-server", hostMemoryBytes: Number.MAX_SAFE_INTEGER };
  const { model } = request;
  const isReadable = model.stored === undefined || /\.gguf$/i.test(model.location);
  if (!canUseHost(asked, "llama-server") || !isReadable) return [];
  const fitting = weightChoices(asked, required).choices.flatMap(({ quantization }) =>
    hostSharings(asked, "llama-server", quantization, KV_TYPES["16"], required)
      .slice(0, 1)
      .map((sharing) => ({
        quantization,
        gibibytes:
          expertBytes(asked, quantization, sharing.numHostLayers ?? 0) / HOST_EXPERTS.memoryUtilization.value / GIB,
      })),
  );
  const least = fitting.toSorted((a, b) => a.gibibytes - b.gibibytes)[0];
  if (least === undefined) return [];
  const memory = Math.ceil(least.gibibytes);
  return [
    `with ${memory} GiB of the host's memory for experts it fits in ${least.quantization.label}: --host-memory ${memory} plans llama-server with them`,
  ];
}

/** `--n-cpu-moe` counts layers from the first one, including those without experts. */
export function hostArguments({ model }: PlanRequest, numHostLayers: number, maxNumBatchedTokens: number): string[] {
  const firsts = model.layers.findIndex(({ feedForward }) => feedForward.kind === "experts");
  // A prompt's tokens in one product: each product brings all experts over the bus once.
  return ["--n-cpu-moe", String(numHostLayers + Math.max(0, firsts)), "-ub", String(maxNumBatchedTokens)];
}

export function hostChoice(
  request: PlanRequest,
  quantization: Quantization,
  { numHostLayers = 0 }: Sharing,
  aloneTokensPerS: number,
  ownTokensPerS: number,
): readonly Choice[] {
  const { model, hostMemoryBytes = 0, hostBytesPerS } = request;
  if (numHostLayers === 0) return [];
  const bandwidth = hostBytesPerS ?? HOST_EXPERTS.bytesPerS.value;
  const source = hostBytesPerS === undefined ? ` (${HOST_EXPERTS.bytesPerS.source})` : "";
  const numLayers = numExpertLayers(model);
  const bytes = gibibytes(expertBytes(request, quantization, numHostLayers));
  return [
    {
      about: "experts on the host",
      choice: `those of ${numHostLayers} of ${numLayers} layers, ${bytes} of ${(hostMemoryBytes / GIB).toFixed(0)} GiB`,
      because: `as few as leave room on the GPU: it has none for all experts. One request alone gets ${ownTokensPerS.toFixed(1)} tokens/s against ${aloneTokensPerS.toFixed(1)} if the host computed everything, with ${(bandwidth / 1e9).toFixed(0)} GB/s of memory bandwidth${source}. A prompt's tokens bring the experts over the bus, step by step. Predicted, not measured: docs/background/planning.md has published figures beside it`,
    },
  ];
}
