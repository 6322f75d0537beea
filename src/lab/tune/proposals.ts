/**
 * Changes to a configuration, each a hypothesis: the bottleneck that it addresses, its predicted gain, and its effect
 * on answers. Least effort comes first.
 */
import type { Bottleneck, Finding } from "./bottleneck.js";
import { type Configuration, type Edit, edited, INSTANCES, keyOf, numberOf } from "./configuration.js";
import type { Evidence } from "./evidence.js";
import type { TunedEngine } from "./tuned-engines.js";

export interface Proposal {
  /** @example "32 seats" */
  readonly name: string;
  readonly bottleneck: Bottleneck;
  readonly edit: Edit;
  /** Predicted objective ÷ the current one. */
  readonly predicted: number;
  /**
   * 0: fewer flags; 1: a flag with an exact effect; 2: a flag that uses more of the machine; 3: a change that alters
   * answers and so needs the quality gate.
   */
  readonly effort: 0 | 1 | 2 | 3;
  readonly isLossy: boolean;
  /** Whether the engine's output keeps the same bits; some engines round differently in batches of another size. */
  readonly isExact: boolean;
}

type Sketch = Omit<Proposal, "bottleneck" | "isLossy" | "isExact" | "effort"> & {
  readonly effort?: 0 | 1 | 2;
  readonly isLossy?: true;
};

export interface Alternatives {
  readonly engine: TunedEngine;
  /** Files of the same model with other weights. */
  readonly weights: readonly { readonly path: string; readonly bytesShare: number }[];
  /** Free memory of the machine; undefined: it is another machine. */
  readonly freeBytes: number | undefined;
}

/** Least gain that is worth a trial. */
const WORTH = 1.01;
const MOST_BATCHED_TOKENS = 8192;
const MIB = 2 ** 20;

type Maker = (configuration: Configuration, evidence: Evidence, alternatives: Alternatives) => readonly Sketch[];

const MAKERS: Readonly<Record<Bottleneck, Maker>> = {
  client: () => [],
  // A separate trial measures what the figures do not show.
  unknown: bandwidthProposals,
  "kv memory": kvProposals,
  seats: seatProposals,
  threads: threadProposals,
  cache: cacheProposals,
  drafts: draftProposals,
  interference: interferenceProposals,
  host: hostProposals,
  prefill: prefillProposals,
  bandwidth: bandwidthProposals,
};

/** Whether the change alters the configuration and promises enough gain. */
const isWorth = (configuration: Configuration, { edit, predicted }: Sketch): boolean =>
  predicted >= WORTH && keyOf(edited(configuration, edit)) !== keyOf(configuration);

/**
 * For each finding in order, its changes by effort and then by predicted gain; each configuration once. Changes that
 * alter answers come last, since they also need judging.
 */
export function proposalsFor(
  findings: readonly Finding[],
  configuration: Configuration,
  evidence: Evidence,
  alternatives: Alternatives,
): Proposal[] {
  const seen = new Set<string>();
  const proposals = findings.flatMap(({ bottleneck }, index) =>
    [
      ...(index === 0 ? defaultsProposal(configuration, 2) : []),
      ...MAKERS[bottleneck](configuration, evidence, alternatives),
    ]
      .flatMap((sketch): Sketch[] => {
        const edit = alternatives.engine.editFor(sketch.edit);
        return edit === undefined ? [] : [{ ...sketch, edit }];
      })
      .filter((sketch) => isWorth(configuration, sketch))
      .map(({ isLossy = false, effort = 1, ...sketch }): Proposal => {
        const isExact = !isLossy && alternatives.engine.isExact;
        return { ...sketch, bottleneck, isLossy, isExact, effort: isLossy ? 3 : effort };
      })
      .sort((a, b) => a.effort - b.effort || b.predicted - a.predicted)
      .filter(({ edit }) => {
        const key = keyOf(edited(configuration, edit));
        if (seen.has(key)) return false;
        seen.add(key);
        return true;
      }),
  );
  return proposals.sort((a, b) => Number(a.isLossy) - Number(b.isLossy));
}

/**
 * Gain from more requests in the batch: half of the added share, since all rows share the weights that a step reads.
 */
const moreRows = (from: number, to: number): number => 1 + 0.5 * (Math.min(to / from, 4) - 1);

function kvProposals(configuration: Configuration, evidence: Evidence, alternatives: Alternatives): Sketch[] {
  const { maxRunning = 1, seats, numClients = seats } = evidence;
  const wanted = Math.min(seats, numClients);
  const gain = moreRows(Math.max(1, maxRunning), Math.min(wanted, 2 * Math.max(1, maxRunning)));
  const fp4Gain = moreRows(Math.max(1, maxRunning), Math.min(wanted, 3.4 * Math.max(1, maxRunning)));
  return [
    ...memoryProposals(configuration, gain, alternatives),
    ...resets(configuration, "kv-layout", gain),
    ...cacheProposals(configuration, evidence, alternatives),
    { name: "int8 KV", edit: { "kv-cache-dtype": "int8" }, predicted: gain, isLossy: true },
    { name: "fp4 KV", edit: { "kv-cache-dtype": "fp4" }, predicted: fp4Gain, isLossy: true },
  ];
}

function memoryProposals(configuration: Configuration, gain: number, { freeBytes }: Alternatives): Sketch[] {
  const flag = "kv-cache-memory-bytes";
  if (configuration[flag] !== undefined) return resets(configuration, flag, 1.2 * gain);
  if (freeBytes === undefined) return [];
  const bytes = String(MIB * Math.floor(freeBytes / 2 / MIB));
  return [{ name: "half of the free memory for KV", edit: { [flag]: bytes }, predicted: gain, effort: 2 }];
}

function seatProposals(
  configuration: Configuration,
  { seats, numClients = 4 * seats }: Evidence,
  { engine }: Alternatives,
): Sketch[] {
  const counts = [Math.min(4 * seats, numClients), Math.min(2 * seats, numClients)].filter((count) => count > seats);
  return [
    ...resets(configuration, "batching", 2),
    ...counts.map((count) => ({
      name: `${count} seats`,
      edit: { "max-num-seqs": String(Math.ceil(count / engine.instances(configuration))) },
      predicted: moreRows(seats, count),
    })),
  ];
}

function threadProposals(configuration: Configuration, { threads, cores }: Evidence): Sketch[] {
  return resets(configuration, "threads", 0.9 * (cores / threads));
}

function cacheProposals(
  configuration: Configuration,
  { repeatedShare, cacheHitShare = 0, prefillShare = 0.5 }: Evidence,
  alternatives: Alternatives,
): Sketch[] {
  const saved = Math.max(0, repeatedShare - cacheHitShare) * prefillShare;
  const predicted = 1 / (1 - Math.min(0.8, saved));
  const off = resets(configuration, "no-enable-prefix-caching", predicted);
  // A cache that is on and still misses has dropped blocks that are needed again: it is too small.
  return off.length > 0 ? off : memoryProposals(configuration, predicted, alternatives);
}

const NO_DRAFTS = '{"method":"none"}';

function draftProposals(configuration: Configuration): Sketch[] {
  return [
    { name: "no drafts", edit: { "speculative-config": NO_DRAFTS }, predicted: 1.1 },
    ...defaultDrafts(configuration, 1.1),
  ];
}

const defaultDrafts = (configuration: Configuration, predicted: number): Sketch[] =>
  configuration["speculative-config"] === undefined
    ? []
    : [{ name: "the default drafts", edit: { "speculative-config": undefined }, predicted }];

function interferenceProposals(configuration: Configuration, evidence: Evidence, { engine }: Alternatives): Sketch[] {
  const seats = seatsEach(configuration, evidence, engine);
  const half = Math.max(seats, Math.floor(batchedTokens(configuration, evidence, engine) / 2));
  return [
    { name: "steps limited to 1.6 times decoding", edit: { "max-step-ms": "auto" }, predicted: 1.3 },
    {
      name: `steps of ${half} tokens`,
      edit: { "max-num-batched-tokens": String(half) },
      predicted: 1.15,
    },
    ...resets(configuration, "no-enable-chunked-prefill", 1.3),
  ];
}

function hostProposals(configuration: Configuration, evidence: Evidence, alternatives: Alternatives): Sketch[] {
  return [
    ...prefillProposals(configuration, evidence, alternatives),
    ...draftProposals(configuration),
    ...instanceProposals(configuration, evidence, alternatives),
  ];
}

/** Rows at which computing takes as long as reading the weights; typical of CPUs with 8-bit weights. */
const BALANCED_ROWS = 8;

/**
 * Throughput of `count` instances ÷ that of the current ones, which share the cores. Each instance has its own host
 * process, for its part of the rows. The kernels compute as before, on whole cores of each, but each instance reads the
 * weights itself.
 */
function moreInstances(count: number, present: number, { cores, kernelShare = 1, maxRunning = 1 }: Evidence): number {
  const ratio = count / present;
  const usedShare = (count * Math.floor(cores / count)) / cores;
  const readShare = 1 / (1 + maxRunning / BALANCED_ROWS);
  return 1 / ((kernelShare * (1 + readShare * (ratio - 1))) / usedShare + (1 - kernelShare) / ratio);
}

/** 2, 4, 8 … instances, above the current number, each with its whole share of the cores; none without a client. */
function instanceProposals(configuration: Configuration, evidence: Evidence, { engine }: Alternatives): Sketch[] {
  const { cores, numClients = cores } = evidence;
  const present = engine.instances(configuration);
  const most = Math.min(cores, numClients);
  return Array.from({ length: Math.floor(Math.log2(most)) }, (_, index) => 2 ** (index + 1))
    .filter((count) => count > present)
    .map((count) => ({
      name: `${count} instances`,
      edit: { [INSTANCES]: String(count), threads: undefined },
      predicted: moreInstances(count, present, evidence),
      effort: 2,
    }));
}

/** Other rounding of the activations changes the bits. */
const activationResets = (configuration: Configuration): Sketch[] =>
  resets(configuration, "activation-dtype", 1.5).map((sketch) => ({ ...sketch, isLossy: true }));

const batchedTokens = (configuration: Configuration, evidence: Evidence, engine: TunedEngine): number =>
  numberOf(configuration, "max-num-batched-tokens") ?? engine.batchedTokens(seatsEach(configuration, evidence, engine));

/** Seats of one instance. */
const seatsEach = (configuration: Configuration, { seats }: Evidence, engine: TunedEngine): number =>
  seats / engine.instances(configuration);

function prefillProposals(configuration: Configuration, evidence: Evidence, { engine }: Alternatives): Sketch[] {
  const tokens = batchedTokens(configuration, evidence, engine);
  const sizes = [8 * tokens, 2 * tokens].filter((size) => size <= MOST_BATCHED_TOKENS);
  return [
    ...sizes.map((size) => ({
      name: `steps of ${size} tokens`,
      edit: { "max-num-batched-tokens": String(size) },
      predicted: tokens < engine.batchedTokens(seatsEach(configuration, evidence, engine)) ? 1.5 : 1.05,
    })),
    ...resets(configuration, "max-step-ms", 1.2),
    ...activationResets(configuration),
    { name: "8-bit activations", edit: { "activation-dtype": "int8" }, predicted: 1.1, isLossy: true },
  ];
}

function bandwidthProposals(configuration: Configuration, evidence: Evidence, { weights }: Alternatives): Sketch[] {
  const rows = evidence.maxRunning ?? 1;
  return [
    ...draftChoices(configuration, rows),
    ...defaultsProposal(configuration, 1),
    ...activationResets(configuration),
    ...weights.map(
      ({ path, bytesShare }): Sketch => ({
        name: `weights of ${path.replace(/.*\//, "")}`,
        edit: { model: path },
        predicted: rows <= 8 ? 1 / (0.2 + 0.8 * bytesShare) : 1 / (0.5 + 0.5 * bytesShare),
        isLossy: true,
      }),
    ),
  ];
}

/** Flags that stay within the memory that the user permits. */
const SHAPING = [
  "batching",
  "block-size",
  INSTANCES,
  "kv-layout",
  "max-num-batched-tokens",
  "max-num-seqs",
  "max-step-ms",
  "no-enable-chunked-prefill",
  "no-enable-prefix-caching",
  "no-share-kv-reads",
  "speculative-config",
  "threads",
];

/**
 * Removes all of these flags at once: some depend on each other, such as seats and the tokens of a step, and one alone
 * may gain nothing.
 */
function defaultsProposal(configuration: Configuration, least: number): Sketch[] {
  const flags = SHAPING.filter((flag) => configuration[flag] !== undefined);
  if (flags.length < least) return [];
  const edit = Object.fromEntries(flags.map((flag) => [flag, undefined]));
  const name = flags.length === 1 ? `without --${flags[0]}` : "the server's defaults";
  return [{ name, edit, predicted: 1 + 0.1 * flags.length, effort: 0 }];
}

/** Drafts from the text itself need no memory; they pay while a step has few rows. */
function draftChoices(configuration: Configuration, rows: number): Sketch[] {
  if (rows > 16) return [];
  const predicted = rows <= 2 ? 1.3 : 1.1;
  const drafts = (method: string, depth: number, gain: number): Sketch => ({
    name: `${method} drafts of ${depth}`,
    edit: { "speculative-config": JSON.stringify({ method, num_speculative_tokens: depth }) },
    predicted: gain,
  });
  return [
    ...defaultDrafts(configuration, predicted),
    drafts("suffix", 8, predicted - 0.02),
    drafts("ngram", 4, predicted - 0.04),
    { name: "no drafts", edit: { "speculative-config": NO_DRAFTS }, predicted: 1.02 },
  ];
}

/** Removing a user's flag restores the server's default. */
function resets(configuration: Configuration, flag: string, predicted: number): Sketch[] {
  if (configuration[flag] === undefined) return [];
  return [{ name: `without --${flag}`, edit: { [flag]: undefined }, predicted }];
}
