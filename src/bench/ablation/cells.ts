/** Cells that show the gain of each layer, and a ladder of loads for the baselines and for all layers together. */
import type { Load } from "../workload/load.js";
import { mixedLengths, padded, usefulShare } from "../workload/mixed-lengths.js";
import {
  type Bounds,
  type Cell,
  cellsOf,
  closedLoads,
  randomWorkload,
  type ServerShape,
  shapeWorkload,
} from "../workload/scenarios.js";
import { scaled, type Workload } from "../workload/workload.js";
import {
  ALL,
  aloneName,
  HALF,
  NAIVE,
  PREFIX_CACHE,
  SPECULATION,
  TRANSFORMERS,
  TRANSFORMERS_BATCHES,
  VANILLA,
  withoutName,
} from "./variants.js";

export interface CellWishes {
  /** Factor for all lengths and for the memory. */
  readonly scale: number;
  /** Lengths of the ladder's requests. */
  readonly shapes: readonly (readonly [promptTokens: number, outputTokens: number])[];
  readonly concurrency: readonly number[];
  /** Time after which a run sends no new requests. */
  readonly durationS: number;
  /** Names of the cells to measure; undefined: all. */
  readonly only?: readonly string[] | undefined;
}

/** Workload names of the cells that the reference ratios refer to. */
export const LENGTHS = "mixed lengths";
export const PADDED = "mixed lengths, padded";
export const SHARED = "shared prompts";
export const MEMORY = "scarce memory";
export const CODE_EDIT = "code edit";
export const STORY = "prose";
export const WARM_EDIT = "code edit, temperature 1";
/** All requests arrive at once. */
export const BURST = "burst of 50";
/** Prefix of the cells whose prompts share a part, before the share. */
export const PREFIX = "shared part ";
/** Prefix of the ladder's cells, before the shape. */
export const LADDER = "ladder ";

const LAYER_CELLS: readonly string[] = [LENGTHS, SHARED, MEMORY, CODE_EDIT];

/** Whether every layer is measured under the cell, both alone and removed from the full set. */
export const isLayerCell = ({ workloadName }: { readonly workloadName: string }): boolean =>
  LAYER_CELLS.includes(workloadName);

/** Whether the cell is part of the ladder: fixed lengths and a number of clients. */
export const isLadderCell = ({ workloadName }: { readonly workloadName: string }): boolean =>
  workloadName.startsWith(LADDER);

export const STATIC_BATCH = 16;
/** Room for tokens that a server adds to a prompt. */
export const LADDER_ROOM = 64;
const BURST_REQUESTS = 50;
const SHARED_PARTS = [0, 0.5, 0.6, 0.8];
const MIN_CONTEXT = 256;

interface Traffic {
  readonly name: string;
  readonly workload: Workload;
  readonly load: Load;
  readonly bounds: Bounds;
  readonly shape: ServerShape;
  readonly targets?: readonly string[];
  readonly usefulShare?: number;
}

const EDIT = { kind: "code-edit", fileTokens: 500, outputTokens: 700 } as const;
const TALE: Workload = {
  kind: "conversation",
  systemTokens: 50,
  turnTokens: 60,
  numTurns: 1,
  outputTokens: 300,
  isFixed: false,
  format: "prose",
};

const one = (concurrency: number): Load => ({ kind: "closed", concurrency, rampMs: 0 });

/** Each kind of traffic with its KV memory: sufficient, except in one case. */
function layerTraffic({ scale, durationS }: CellWishes): Traffic[] {
  const lengths = mixedLengths(scale);
  const entries = padded(lengths, STATIC_BATCH);
  const [few, many] = [one(4), one(48)];
  const enough = { seats: 8, maxModelLen: 2048, kvTokens: 16_384 };
  const sixteen = { seats: STATIC_BATCH, maxModelLen: 1024, kvTokens: 16_384 };
  const speculating = [VANILLA, aloneName(VANILLA, SPECULATION)];
  const batches = { load: one(STATIC_BATCH), bounds: { numRequests: lengths.length }, shape: sixteen };
  const cached = [VANILLA, aloneName(VANILLA, PREFIX_CACHE), withoutName(PREFIX_CACHE), ALL];
  const alone = { load: one(1), bounds: { numRequests: 6, durationS }, shape: enough };
  return [
    { name: LENGTHS, workload: { kind: "entries", entries: lengths }, ...batches },
    {
      name: PADDED,
      workload: { kind: "entries", entries },
      ...batches,
      targets: [NAIVE, TRANSFORMERS_BATCHES],
      usefulShare: usefulShare(lengths, STATIC_BATCH),
    },
    {
      name: SHARED,
      workload: scaled(randomWorkload(400, 32, 300), scale),
      load: few,
      bounds: { numRequests: 36, numUncounted: 4, durationS },
      shape: enough,
    },
    {
      name: MEMORY,
      workload: scaled(randomWorkload(256, 64, 192), scale),
      load: many,
      bounds: { numRequests: 96, durationS },
      shape: { seats: 48, maxModelLen: 1024, kvTokens: 4096 },
    },
    { name: CODE_EDIT, workload: scaled(EDIT, scale), ...alone },
    { name: STORY, workload: scaled(TALE, scale), ...alone, targets: speculating },
    { name: WARM_EDIT, workload: scaled({ ...EDIT, temperature: 1 }, scale), ...alone, targets: speculating },
    {
      name: BURST,
      workload: scaled(randomWorkload(512, 128), scale),
      load: one(BURST_REQUESTS),
      bounds: { numRequests: BURST_REQUESTS },
      shape: { seats: BURST_REQUESTS, maxModelLen: 1024, kvTokens: 1024 * BURST_REQUESTS },
      targets: [VANILLA, ALL],
    },
    ...SHARED_PARTS.map((share) => ({
      name: `${PREFIX}${100 * share} %`,
      workload: scaled(randomWorkload(500, 64, Math.round(500 * share)), scale),
      load: few,
      bounds: { numRequests: 24, numUncounted: 4, durationS },
      shape: enough,
      targets: cached,
    })),
  ];
}

function ladderTraffic({ scale, shapes, concurrency, durationS }: CellWishes): Traffic[] {
  const targets = [TRANSFORMERS, TRANSFORMERS_BATCHES, NAIVE, VANILLA, withoutName(SPECULATION), ALL, HALF];
  const seats = Math.max(...concurrency);
  // One size for the whole ladder, so that a server stays up for it.
  const longest = Math.max(...shapes.map(([promptTokens, outputTokens]) => promptTokens + outputTokens));
  const maxModelLen = longest + LADDER_ROOM;
  const shape = { seats, maxModelLen, kvTokens: seats * maxModelLen };
  return shapes.flatMap(([promptTokens, outputTokens]) => {
    const { name, workload } = shapeWorkload(promptTokens, outputTokens);
    return closedLoads(concurrency).map((load): Traffic => {
      const bounds = { requestsPerClient: [2, 4], durationS } as const;
      return { name: LADDER + name, workload: scaled(workload, scale), load, bounds, shape, targets };
    });
  });
}

function scaledShape(shape: ServerShape, scale: number): ServerShape {
  const maxModelLen = Math.max(MIN_CONTEXT, Math.ceil(shape.maxModelLen * scale));
  return { ...shape, maxModelLen, kvTokens: Math.max(maxModelLen, Math.ceil(shape.kvTokens * scale)) };
}

/** @param servers names of all servers; the half and the baselines of transformers are for some cells only */
export function ablationCells(wishes: CellWishes, servers: readonly string[]): Cell[] {
  const onAll = servers.filter((name) => ![HALF, TRANSFORMERS, TRANSFORMERS_BATCHES].includes(name));
  const traffic = [...layerTraffic(wishes), ...ladderTraffic(wishes)];
  return traffic
    .filter(({ name }) => wishes.only === undefined || wishes.only.some((wanted) => name.startsWith(wanted)))
    .flatMap(({ name, workload, load, bounds, shape, targets = onAll, usefulShare: share }) =>
      cellsOf({
        name,
        about: name,
        workloads: [{ name, workload }],
        loads: [load],
        bounds,
        rounds: 1,
        shape: scaledShape(shape, wishes.scale),
      }).map((cell) => ({
        ...cell,
        targets: targets.filter((target) => servers.includes(target)),
        usefulShare: share,
      })),
    );
}

/** Names for --cells. */
export const CELL_NAMES = [LENGTHS, SHARED, MEMORY, CODE_EDIT, STORY, BURST, PREFIX.trim(), LADDER.trim()] as const;
