/**
 * Answers of /v1/responses for later requests, in memory: each tenant sees its own, and bytes, number and time are
 * bounded. A turn refers to the turn before it, so that a conversation of any length is stored once, and continues
 * after
 * the deletion of its beginning.
 */
import { MAX_JSON_MARKS, shapeOf } from "./json-body.js";

export interface StoreLimits {
  readonly maxResponses: number;
  /** Upper bound of all stored JSON, in bytes. */
  readonly maxBytes: number;
  /** Upper bound of a conversation's items: each request that continues the conversation reads all of them. */
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

/** The items of one request and its answer, kept as bytes; bounds count these bytes. */
export interface Turn {
  readonly previous: Turn | undefined;
  /** The request's own input items: a JSON array. */
  readonly input: Buffer;
  /** The answer's items: a JSON array. */
  readonly output: Buffer;
  /** Number of items in `input` and in `output`. */
  readonly numInput: number;
  readonly numOutput: number;
  /** Size of the items of this turn and all turns before it. */
  readonly conversationBytes: number;
  /** Marks of the same items (see MAX_JSON_MARKS); they count in later requests. */
  readonly conversationMarks: number;
  /** Number of turns that continue this one, plus 1 for its response. At 0, its bytes are freed. */
  numHolders: number;
}

/** An answer that clients can fetch. After its deletion, its turn stays part of later turns' conversations. */
export interface StoredResponse {
  readonly id: string;
  readonly turn: Turn;
  /** The response object as JSON, without `output` if that equals the turn's own. */
  readonly json: Buffer;
  /** Ids of the items in its turn's input and output, each once. */
  readonly itemIds: ReadonlySet<string>;
  readonly storedAtMs: number;
}

interface Shelf {
  /** Oldest first. */
  readonly responses: Map<string, StoredResponse>;
  /** Item id → responses. Clients repeat items, and a kept answer repeats ids, so an item may belong to several. */
  readonly byItem: Map<string, StoredResponse[]>;
  numBytes: number;
}

/** Memory of a turn or response beside its JSON: objects, map entries and headers. */
const ENTRY_BYTES = 1024;
/** Memory of an item's id and of its entry in a map. */
const ID_BYTES = 512;
/** Longer ids, which no server gives, cannot be looked up. */
const MAX_ID_CHARACTERS = 128;

const bytesOfTurn = ({ input, output }: Turn): number => input.length + output.length + ENTRY_BYTES;
const bytesOfResponse = ({ json, itemIds }: StoredResponse): number =>
  json.length + ENTRY_BYTES + itemIds.size * ID_BYTES;

/** A value's JSON in separate memory: a small buffer of Node's pool would keep the pool's 8 KiB alive. */
function jsonBytes(value: unknown): Buffer {
  const text = JSON.stringify(value);
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** A request's own input in its stored form. */
export interface StoredInput {
  /** The items: a JSON array. */
  readonly json: Buffer;
  readonly numItems: number;
  readonly ids: readonly string[];
}

export function storedInput(items: readonly unknown[]): StoredInput {
  return { json: jsonBytes(items), numItems: items.length, ids: idsOf(items) };
}

function idsOf(items: readonly unknown[]): string[] {
  const ids = items.map((item) => ((item ?? {}) as Item).id);
  return ids.filter((each): each is string => typeof each === "string" && each.length <= MAX_ID_CHARACTERS);
}

export function itemsIn(bytes: Buffer): readonly Item[] {
  return JSON.parse(bytes.toString()) as readonly Item[];
}

function outputOf(turn: Turn): readonly Item[] {
  return itemsIn(turn.output);
}

export function inputOf(turn: Turn): readonly Item[] {
  return itemsIn(turn.input);
}

/** All items up to the turn's end, oldest first. */
export function conversationOf(last: Turn): Item[] {
  const turns: Turn[] = [];
  for (let turn: Turn | undefined = last; turn !== undefined; turn = turn.previous) turns.push(turn);
  return turns.reverse().flatMap((turn) => [...inputOf(turn), ...outputOf(turn)]);
}

interface Place {
  readonly list: Buffer;
  /** Index in the list. */
  readonly at: number;
}

/** The place of each item of the conversation up to the turn's own input, in the order of conversationOf. */
export function placesOf(last: Turn): readonly Place[] {
  const lists: (readonly [list: Buffer, numItems: number])[] = [[last.input, last.numInput]];
  for (let turn = last.previous; turn !== undefined; turn = turn.previous) {
    lists.push([turn.output, turn.numOutput], [turn.input, turn.numInput]);
  }
  return lists.reverse().flatMap(([list, numItems]) => Array.from({ length: numItems }, (_, at) => ({ list, at })));
}

/** The complete response object. */
export function responseOf({ json, turn }: StoredResponse): Item {
  const response = JSON.parse(json.toString()) as Item;
  return "output" in response ? response : { ...response, output: outputOf(turn) };
}

/** Items in their stored form, without log-probabilities. @returns the same list if it has none */
export function withoutLogprobs(items: readonly unknown[]): readonly unknown[] {
  if (!items.some(hasLogprobs)) return items;
  return items.map((item) => {
    if (!hasLogprobs(item)) return item;
    return { ...item, content: item.content.map((part) => (isScored(part) ? { ...part, logprobs: [] } : part)) };
  });
}

function hasLogprobs(item: unknown): item is { readonly content: readonly unknown[] } {
  const { content } = (item ?? {}) as { readonly content?: unknown };
  return Array.isArray(content) && content.some(isScored);
}

function isScored(part: unknown): part is object {
  const { logprobs } = (part ?? {}) as { readonly logprobs?: unknown };
  return Array.isArray(logprobs) && logprobs.length > 0;
}

export class ResponseStore {
  readonly #shelves = new Map<string, Shelf>();
  #numBytes = 0;
  #numResponses = 0;

  constructor(
    readonly limits: StoreLimits = DEFAULT_STORE_LIMITS,
    private readonly now: () => number = Date.now,
  ) {}

  get numBytes(): number {
    return this.#numBytes;
  }

  get numResponses(): number {
    return this.#numResponses;
  }

  get(tenant: string, id: string): StoredResponse | undefined {
    this.#expire();
    return this.#shelves.get(tenant)?.responses.get(id);
  }

  /** The tenant's newest answer with this item in its own input or output. */
  ofItem(tenant: string, itemId: string): StoredResponse | undefined {
    this.#expire();
    return this.#shelves.get(tenant)?.byItem.get(itemId)?.at(-1);
  }

  /**
   * @returns whether the answer is stored: false if it is too long, or evicted at once because its tenant holds the
   *   most
   */
  put(tenant: string, id: string, previous: Turn | undefined, asked: StoredInput, answer: Item): boolean {
    const items: readonly unknown[] = Array.isArray(answer.output) ? answer.output : [];
    const said = withoutLogprobs(items);
    const { json: input } = asked;
    const output = jsonBytes(said);
    const turn: Turn = {
      previous,
      input,
      output,
      numInput: asked.numItems,
      numOutput: items.length,
      conversationBytes: (previous?.conversationBytes ?? 0) + input.length + output.length,
      conversationMarks: (previous?.conversationMarks ?? 0) + shapeOf(input).numMarks + shapeOf(output).numMarks,
      numHolders: 0,
    };
    const stored: StoredResponse = {
      id,
      turn,
      json: jsonBytes(said === answer.output ? { ...answer, output: undefined } : answer),
      itemIds: new Set([...asked.ids, ...idsOf(items)]),
      storedAtMs: this.now(),
    };
    this.delete(tenant, id);
    if (!this.#fits(stored)) return false;
    this.#add(tenant, stored);
    this.#expire();
    while (this.#numBytes > this.limits.maxBytes) this.#evict(({ numBytes }) => numBytes);
    while (this.#numResponses > this.limits.maxResponses) this.#evict(({ responses }) => responses.size);
    return this.#shelves.get(tenant)?.responses.get(id) === stored;
  }

  /** @returns whether the response existed */
  delete(tenant: string, id: string): boolean {
    const shelf = this.#shelves.get(tenant);
    const stored = shelf?.responses.get(id);
    if (shelf === undefined || stored === undefined) return false;
    shelf.responses.delete(id);
    for (const itemId of stored.itemIds) {
      const others = shelf.byItem.get(itemId)!.filter((each) => each !== stored);
      if (others.length > 0) shelf.byItem.set(itemId, others);
      else shelf.byItem.delete(itemId);
    }
    this.#numResponses--;
    this.#count(shelf, -bytesOfResponse(stored));
    this.#release(shelf, stored.turn);
    if (shelf.responses.size === 0) this.#shelves.delete(tenant);
    return true;
  }

  /** Whether it would fit as the only response, with its conversation. */
  #fits(stored: StoredResponse): boolean {
    const { conversationBytes, conversationMarks } = stored.turn;
    const { maxBytes, maxConversationBytes } = this.limits;
    if (conversationBytes > maxConversationBytes || conversationMarks > MAX_JSON_MARKS) return false;
    let numBytes = bytesOfResponse(stored);
    for (let turn: Turn | undefined = stored.turn; turn !== undefined; turn = turn.previous) {
      numBytes += bytesOfTurn(turn);
    }
    return numBytes <= maxBytes;
  }

  #add(tenant: string, stored: StoredResponse): void {
    const shelf = this.#shelves.get(tenant) ?? { responses: new Map(), byItem: new Map(), numBytes: 0 };
    this.#shelves.set(tenant, shelf);
    shelf.responses.set(stored.id, stored);
    for (const itemId of stored.itemIds) {
      const others = shelf.byItem.get(itemId);
      if (others === undefined) shelf.byItem.set(itemId, [stored]);
      else others.push(stored);
    }
    this.#numResponses++;
    this.#count(shelf, bytesOfResponse(stored));
    this.#hold(shelf, stored.turn);
  }

  #count(shelf: Shelf, numBytes: number): void {
    shelf.numBytes += numBytes;
    this.#numBytes += numBytes;
  }

  /** Adds a holder. A turn that was released during this answer's generation counts again, with all turns before it. */
  #hold(shelf: Shelf, turn: Turn): void {
    for (let each: Turn | undefined = turn; each !== undefined && each.numHolders++ === 0; each = each.previous) {
      this.#count(shelf, bytesOfTurn(each));
    }
  }

  #release(shelf: Shelf, turn: Turn): void {
    for (let each: Turn | undefined = turn; each !== undefined && --each.numHolders === 0; each = each.previous) {
      this.#count(shelf, -bytesOfTurn(each));
    }
  }

  /** Evicts the oldest entry of the tenant that holds the most, so that no tenant pushes others out. */
  #evict(share: (shelf: Shelf) => number): void {
    const [tenant, shelf] = [...this.#shelves].reduce((most, each) => (share(each[1]) > share(most[1]) ? each : most));
    this.delete(tenant, shelf.responses.keys().next().value!);
  }

  #expire(): void {
    const oldestMs = this.now() - this.limits.ttlMs;
    for (const [tenant, { responses }] of this.#shelves) {
      for (const stored of responses.values()) {
        if (stored.storedAtMs > oldestMs) break;
        this.delete(tenant, stored.id);
      }
    }
  }
}
