/** Traffic of a few kinds, the same for every server that is compared: which prompts, by how many clients, in what order. */
import { randomPrompts } from "../random-prompts.js";
import type { CompletionRecord } from "./client.js";
import type { CompletionRequest, ServerShape } from "./servers.js";

export interface Traffic {
  readonly vocabSize: number;
  /** Another seed, other prompts. */
  readonly seed: number;
  complete(request: CompletionRequest): Promise<CompletionRecord>;
}

export interface Scenario {
  readonly name: string;
  readonly about: string;
  readonly shape: ServerShape;
  /** Traffic before what counts. */
  warmUp?(traffic: Traffic): Promise<void>;
  /** Resolves with the records that count. */
  run(traffic: Traffic): Promise<readonly CompletionRecord[]>;
}

/** Reproducible lengths from `min` to `max`, as many short as long ones on a logarithmic scale. */
function lengths(count: number, min: number, max: number, seed: number): number[] {
  const draws = randomPrompts({ batch: 1, promptTokens: count, sharedPrefix: 0, vocabSize: 1 << 16 }, seed + 977);
  return Array.from(draws[0]!, (draw) => Math.round(min * (max / min) ** (draw / (1 << 16))));
}

function idsFor({ vocabSize, seed }: Traffic, length: number, what: number): number[] {
  // Some vocabularies begin with special tokens.
  const [ids] = randomPrompts(
    { batch: 1, promptTokens: length, sharedPrefix: 0, vocabSize: vocabSize - 300 },
    seed * 1009 + what,
  );
  return Array.from(ids!, (id) => id + 300);
}

/** Each client sends its requests one after another; all clients at once. */
async function byClients(
  numClients: number,
  requests: readonly CompletionRequest[],
  traffic: Traffic,
): Promise<CompletionRecord[]> {
  const records: CompletionRecord[] = [];
  const queue = [...requests];
  const client = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) records.push(await traffic.complete(next));
  };
  await Promise.all(Array.from({ length: numClients }, client));
  return records;
}

const SYSTEM_TOKENS = 250;

function sharedSystem(traffic: Traffic, count: number, first: number): CompletionRequest[] {
  const system = idsFor(traffic, SYSTEM_TOKENS, 0);
  return Array.from({ length: count }, (_, i) => ({
    promptIds: [...system, ...idsFor(traffic, 25, 1 + first + i)],
    maxTokens: 32,
  }));
}

const TURN_TOKENS = 30;
const ANSWER_TOKENS = 48;
const NUM_TURNS = 6;

async function chats(numUsers: number, traffic: Traffic): Promise<CompletionRecord[]> {
  const records: CompletionRecord[] = [];
  const user = async (_: unknown, index: number) => {
    let history = idsFor(traffic, SYSTEM_TOKENS, 0);
    for (let turn = 0; turn < NUM_TURNS; turn++) {
      history = [...history, ...idsFor(traffic, TURN_TOKENS, 10_000 + index * 100 + turn)];
      const record = await traffic.complete({ promptIds: history, maxTokens: ANSWER_TOKENS });
      records.push(record);
      history = [...history, ...record.ids];
    }
  };
  await Promise.all(Array.from({ length: numUsers }, user));
  return records;
}

const EIGHT_SEATS = { seats: 8, maxModelLen: 2048, kvTokens: 16_384 };

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "shared-cold",
    about: "8 clients, 24 requests, a common system prompt of 250 tokens, 25 of their own, 32 out",
    shape: EIGHT_SEATS,
    run: (traffic) => byClients(8, sharedSystem(traffic, 24, 0), traffic),
  },
  {
    name: "shared-steady",
    about: "the same after 80 requests",
    shape: EIGHT_SEATS,
    warmUp: async (traffic) => {
      await byClients(8, sharedSystem(traffic, 80, 0), traffic);
    },
    run: (traffic) => byClients(8, sharedSystem(traffic, 48, 80), traffic),
  },
  {
    name: "chats-8",
    about: "8 users, 6 turns each, growing history",
    shape: EIGHT_SEATS,
    run: (traffic) => chats(8, traffic),
  },
  {
    name: "chats-16-on-8",
    about: "16 users on 8 seats: histories outlive their slots",
    shape: EIGHT_SEATS,
    run: (traffic) => chats(16, traffic),
  },
  {
    name: "mixed",
    about: "8 clients, 32 requests, nothing shared, prompts of 16 to 768 tokens, 16 to 128 out",
    shape: EIGHT_SEATS,
    run: (traffic) => {
      const prompts = lengths(32, 16, 768, 1);
      const outputs = lengths(32, 16, 128, 2);
      const requests = prompts.map((length, i) => ({ promptIds: idsFor(traffic, length, i), maxTokens: outputs[i]! }));
      return byClients(8, requests, traffic);
    },
  },
  {
    name: "long-arrival",
    about: "a prompt of 3,000 tokens arrives among 6 streams",
    shape: { seats: 8, maxModelLen: 4096, kvTokens: 16_384 },
    run: async (traffic) => {
      const streams = Array.from({ length: 6 }, (_, i) =>
        traffic.complete({ promptIds: idsFor(traffic, 64, i), maxTokens: 600 }),
      );
      await new Promise((resolve) => setTimeout(resolve, 5000));
      const late = traffic.complete({ promptIds: idsFor(traffic, 3000, 99), maxTokens: 16 });
      // The late one comes last: what is before and after is told by its times.
      return [...(await Promise.all(streams)), await late];
    },
  },
  {
    name: "lengths",
    about: "16 clients, 48 requests of 32 tokens, 16 to 512 out, log-uniform",
    shape: { seats: 16, maxModelLen: 1024, kvTokens: 16_384 },
    run: (traffic) => {
      const requests = lengths(48, 16, 512, 3).map((maxTokens, i) => ({
        promptIds: idsFor(traffic, 32, i),
        maxTokens,
      }));
      return byClients(16, requests, traffic);
    },
  },
];
