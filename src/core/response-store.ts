/**
 * Answers of /v1/responses that later requests build on, in memory: each tenant sees its own, and bytes, number and time are bounded. A turn holds
 * the one before it, so that a conversation is stored once however long it gets, and goes on when its beginning has been deleted.
 */
import { shapeOf } from "./json-body.js";

export interface StoreLimits {
  readonly maxResponses: number;
  /** Of all that is stored, as JSON. */
  readonly maxBytes: number;
  /** Of a conversation: each request that goes on with it has all of it read. */
  readonly maxConversationBytes: number;
  readonly ttlMs: number;
}

export const DEFAULT_STORE_LIMITS: StoreLimits = {
  maxResponses: 10_000,
  maxBytes: 256 * 1024 * 1024,
  maxConversationBytes: 2 * 1024 * 1024,
  ttlMs: 24 * 3600 * 1000,
};

type Item = Readonly<Record<string, unknown>>;

/** One request and its answer. Texts are kept as bytes, which are what is counted. */
export interface Turn {
  readonly id: string;
  readonly previous: Turn | undefined;
  /** The request's own input items: a JSON array. */
  readonly input: Buffer;
  /** The response object as JSON. */
  readonly response: Buffer;
  readonly outputIds: readonly string[];
  /** With all turns before it. */
  readonly conversationBytes: number;
  /** With all turns before it: the marks (see MAX_JSON_MARKS) of what was said, which later requests bring along. */
  readonly conversationMarks: number;
  readonly storedAtMs: number;
  /** The turns that go on from it, and the store itself: none left, its bytes are free. */
  numHolders: number;
}

interface Shelf {
  /** Oldest first. */
  readonly turns: Map<string, Turn>;
  /** By the ids of the items in their output. */
  readonly byItem: Map<string, Turn>;
  numBytes: number;
}

/** What an entry costs beside its texts. */
const ENTRY_BYTES = 1024;

const bytesOf = ({ input, response }: Pick<Turn, "input" | "response">): number =>
  input.length + response.length + ENTRY_BYTES;

export function outputOf(turn: Turn): readonly Item[] {
  const { output } = JSON.parse(turn.response.toString()) as { readonly output?: readonly Item[] };
  return output ?? [];
}

export function inputOf(turn: Turn): readonly Item[] {
  return JSON.parse(turn.input.toString()) as readonly Item[];
}

/** All that was said up to the turn's end, oldest first. */
export function conversationOf(last: Turn): Item[] {
  const turns: Turn[] = [];
  for (let turn: Turn | undefined = last; turn !== undefined; turn = turn.previous) turns.push(turn);
  return turns.reverse().flatMap((turn) => [...inputOf(turn), ...outputOf(turn)]);
}

export class ResponseStore {
  readonly #shelves = new Map<string, Shelf>();
  #numBytes = 0;
  #numTurns = 0;

  constructor(
    readonly limits: StoreLimits = DEFAULT_STORE_LIMITS,
    private readonly now: () => number = Date.now,
  ) {}

  get numBytes(): number {
    return this.#numBytes;
  }

  get numTurns(): number {
    return this.#numTurns;
  }

  get(tenant: string, id: string): Turn | undefined {
    this.#expire();
    return this.#shelves.get(tenant)?.turns.get(id);
  }

  /** The item of that id in an answer of the tenant's. */
  item(tenant: string, id: string): Item | undefined {
    this.#expire();
    const turn = this.#shelves.get(tenant)?.byItem.get(id);
    return turn === undefined ? undefined : outputOf(turn).find((item) => item.id === id);
  }

  put(tenant: string, id: string, previous: Turn | undefined, input: Buffer, answer: Item): void {
    const response = Buffer.from(JSON.stringify(answer));
    const ids = Array.isArray(answer.output) ? answer.output.map((item: Item) => item.id) : [];
    const output = Buffer.from(JSON.stringify(answer.output ?? []));
    const numMarks = shapeOf(input).numMarks + shapeOf(output).numMarks;
    const turn: Turn = {
      id,
      previous,
      input,
      response,
      outputIds: ids.filter((each): each is string => typeof each === "string"),
      conversationBytes: (previous?.conversationBytes ?? 0) + bytesOf({ input, response }),
      conversationMarks: (previous?.conversationMarks ?? 0) + numMarks,
      storedAtMs: this.now(),
      numHolders: 0,
    };
    this.delete(tenant, id);
    const shelf = this.#shelfOf(tenant);
    shelf.turns.set(id, turn);
    for (const itemId of turn.outputIds) shelf.byItem.set(itemId, turn);
    this.#hold(shelf, turn);
    this.#numTurns++;
    this.#expire();
    while (this.#numBytes > this.limits.maxBytes) this.#evict(({ numBytes }) => numBytes);
    while (this.#numTurns > this.limits.maxResponses) this.#evict(({ turns }) => turns.size);
  }

  /** @returns whether there was one */
  delete(tenant: string, id: string): boolean {
    const shelf = this.#shelves.get(tenant);
    const turn = shelf?.turns.get(id);
    if (shelf === undefined || turn === undefined) return false;
    shelf.turns.delete(id);
    for (const itemId of turn.outputIds) if (shelf.byItem.get(itemId) === turn) shelf.byItem.delete(itemId);
    this.#numTurns--;
    this.#release(shelf, turn);
    if (shelf.turns.size === 0) this.#shelves.delete(tenant);
    return true;
  }

  #shelfOf(tenant: string): Shelf {
    const shelf = this.#shelves.get(tenant) ?? { turns: new Map(), byItem: new Map(), numBytes: 0 };
    this.#shelves.set(tenant, shelf);
    return shelf;
  }

  #count(shelf: Shelf, numBytes: number): void {
    shelf.numBytes += numBytes;
    this.#numBytes += numBytes;
  }

  /** A turn may have been let go while an answer to it was being made: then it is back, with those before it. */
  #hold(shelf: Shelf, turn: Turn): void {
    for (let each: Turn | undefined = turn; each !== undefined && each.numHolders++ === 0; each = each.previous) {
      this.#count(shelf, bytesOf(each));
    }
  }

  #release(shelf: Shelf, turn: Turn): void {
    for (let each: Turn | undefined = turn; each !== undefined && --each.numHolders === 0; each = each.previous) {
      this.#count(shelf, -bytesOf(each));
    }
  }

  /** The oldest of whoever holds most of what there is too much of: nobody pushes others out. */
  #evict(share: (shelf: Shelf) => number): void {
    const [tenant, shelf] = [...this.#shelves].reduce((most, each) => (share(each[1]) > share(most[1]) ? each : most));
    this.delete(tenant, shelf.turns.keys().next().value!);
  }

  #expire(): void {
    const oldestMs = this.now() - this.limits.ttlMs;
    for (const [tenant, { turns }] of this.#shelves) {
      for (const turn of turns.values()) {
        if (turn.storedAtMs > oldestMs) break;
        this.delete(tenant, turn.id);
      }
    }
  }
}
