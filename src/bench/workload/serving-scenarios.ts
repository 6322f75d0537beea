/** Traffic of `millrace bench serving`, which shows the server's strengths; each kind has a server size. */
import type { Load } from "./load.js";
import { mixedLengths, padded, usefulShare } from "./mixed-lengths.js";
import { type Bounds, randomWorkload, type Scenario, type ServerShape } from "./scenarios.js";
import type { Entry, Workload } from "./workload.js";

const EIGHT_SEATS = { seats: 8, maxModelLen: 2048, kvTokens: 16_384 };

/** One kind of traffic for a server of a certain size. */
function serving(
  about: string,
  name: string,
  workload: Workload,
  load: Load,
  bounds: Bounds,
  shape: ServerShape = EIGHT_SEATS,
): Scenario {
  return { name, about, workloads: [{ name, workload }], loads: [load], bounds, rounds: 3, shape };
}

const clients = (concurrency: number): Load => ({ kind: "closed", concurrency, rampMs: 0 });

const FIXED_CHAT: Workload = {
  kind: "conversation",
  systemTokens: 250,
  turnTokens: 30,
  numTurns: 6,
  outputTokens: 48,
  isFixed: true,
  format: "prose",
};

const SIXTEEN_SEATS = { seats: 16, maxModelLen: 1024, kvTokens: 16_384 };

const entriesOf = (entries: readonly Entry[]): Workload => ({ kind: "entries", entries });
const replay = (entries: readonly Entry[]): Load => ({ kind: "replay", atMs: entries.map((entry) => entry.atMs!) });

const STATIC_BATCH = 16;
const LENGTHS = mixedLengths();
const PADDED = padded(LENGTHS, STATIC_BATCH);

const TENANT_SEATS = { ...EIGHT_SEATS, apiKeys: ["modest", "busy"] };
const BUSY_TENANT: readonly Entry[] = Array.from({ length: 20 }, () => ({
  promptTokens: 1500,
  outputTokens: 32,
  atMs: 0,
  apiKey: "busy",
}));
const MODEST_TENANT: readonly Entry[] = Array.from({ length: 10 }, (_, i) => ({
  promptTokens: 275,
  outputTokens: 32,
  atMs: 1000 + 3000 * i,
  apiKey: "modest",
}));

/** Six streams, and a long prompt that arrives after five seconds. */
const LONG_ARRIVAL: readonly Entry[] = [
  ...Array.from({ length: 6 }, () => ({ promptTokens: 64, outputTokens: 600, atMs: 0 })),
  { promptTokens: 3000, outputTokens: 16, atMs: 5000 },
];

/** Scenarios of `millrace bench serving`, which restarts the servers for each run. */
export const SERVING_SCENARIOS: readonly Scenario[] = [
  serving(
    "8 clients, 24 requests, a common system prompt of 250 tokens, 25 of their own, 32 out",
    "shared-cold",
    randomWorkload(275, 32, 250),
    clients(8),
    { numRequests: 24 },
  ),
  serving("the same after 80 requests", "shared-steady", randomWorkload(275, 32, 250), clients(8), {
    numRequests: 128,
    numUncounted: 80,
  }),
  serving("8 users, 6 turns each, growing history", "chats-8", FIXED_CHAT, clients(8), { numRequests: 48 }),
  serving("16 users on 8 seats: histories outlive their slots", "chats-16-on-8", FIXED_CHAT, clients(16), {
    numRequests: 96,
  }),
  serving(
    "8 clients, 32 requests, nothing shared, prompts of 16 to 768 tokens, 16 to 128 out",
    "mixed",
    randomWorkload({ min: 16, max: 768 }, { min: 16, max: 128 }),
    clients(8),
    { numRequests: 32 },
  ),
  serving(
    "a prompt of 3,000 tokens arrives among 6 streams: ITL beside prompts against undisturbed",
    "long-arrival",
    entriesOf(LONG_ARRIVAL),
    replay(LONG_ARRIVAL),
    {},
    { ...EIGHT_SEATS, maxModelLen: 4096 },
  ),
  serving(
    "16 clients, 48 requests of 32 tokens, 16 to 512 out, log-uniform",
    "lengths",
    entriesOf(LENGTHS),
    clients(16),
    { numRequests: LENGTHS.length },
    SIXTEEN_SEATS,
  ),
  serving(
    `the same as batches of 16 that all run as long as their longest, for --batching static: ${(100 * usefulShare(LENGTHS, STATIC_BATCH)).toFixed(1)} % of the tokens were asked for`,
    "lengths-padded",
    entriesOf(PADDED),
    clients(16),
    { numRequests: PADDED.length },
    SIXTEEN_SEATS,
  ),
  serving(
    "one tenant sends 20 prompts of 1,500 tokens at once; what counts are another's, 275 tokens each and 32 out, every three seconds",
    "tenants",
    entriesOf([...BUSY_TENANT, ...MODEST_TENANT]),
    replay([...BUSY_TENANT, ...MODEST_TENANT]),
    { numUncounted: BUSY_TENANT.length },
    TENANT_SEATS,
  ),
  serving("the other tenant alone", "tenants-alone", entriesOf(MODEST_TENANT), replay(MODEST_TENANT), {}, TENANT_SEATS),
];
