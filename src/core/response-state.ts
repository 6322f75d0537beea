/**
 * Keeps answers of /v1/responses between requests, at the server that clients reach: later requests go on from stored
 * answers, and clients can ask for them.
 */
import { MillraceError } from "./errors.js";
import { type JsonObject, MAX_JSON_MARKS } from "./json-body.js";
import {
  conversationOf,
  inputOf,
  itemsIn,
  placesOf,
  type ResponseStore,
  responseOf,
  type StoredInput,
  type StoredResponse,
  storedInput,
  type Turn,
  withoutLogprobs,
} from "./response-store.js";

/** A request in the form for the engine, which keeps no answers, and the place where its answer is kept. */
export interface OpenTurn {
  /** With the whole conversation as input. */
  readonly body: JsonObject;
  readonly previousId: string | null;
  /** Whether the answer will be kept, unless it turns out too long: `store` until the answer is whole. */
  readonly isToBeStored: boolean;
  /** Takes the whole answer, and keeps it if it can. @returns the answer, whose `store` says whether it is kept */
  finish<T extends JsonObject>(response: T): T & { readonly store: boolean };
}

/**
 * The paths of stored responses are `not_found`; a request that continues one has the error that clients of OpenAI's
 * know.
 */
function notFound(what: string, id: string, param: string): MillraceError {
  const code = param === "previous_response_id" ? "previous_response_not_found" : "not_found";
  return new MillraceError(code, `expected the id of a stored ${what}, got ${JSON.stringify(id.slice(0, 80))}`, {
    param,
    hint: "an answer is kept for the API key that asked, or on a gateway for the key's organisation, for a limited time and while there is room; one that says store: false is not kept",
  });
}

function itemsOf(input: unknown): readonly unknown[] {
  if (Array.isArray(input)) return input;
  return input === undefined || input === null ? [] : [{ type: "message", role: "user", content: input }];
}

interface Size {
  /** In strings: the value's JSON has more. */
  readonly numCharacters: number;
  /** See MAX_JSON_MARKS; beyond it neither is counted further. */
  readonly numMarks: number;
}

function sizeOf(value: unknown): Size {
  let [numCharacters, numMarks] = [0, 0];
  const pending: unknown[] = [value];
  while (pending.length > 0 && numMarks <= MAX_JSON_MARKS) {
    const each = pending.pop();
    if (typeof each === "string") numCharacters += each.length;
    if (typeof each !== "object" || each === null) continue;
    const parts: readonly unknown[] = Array.isArray(each) ? each : Object.values(each);
    // A bracket and the commas, and an object's colons.
    numMarks += Math.max(parts.length, 1) + (Array.isArray(each) ? 0 : parts.length);
    for (const part of parts) pending.push(part);
  }
  return { numCharacters, numMarks };
}

function tooLong(param: string, max: number, unit: string, got: number): MillraceError {
  const message = `${param}: expected a conversation of at most ${max} ${unit}, got ${got}`;
  return new MillraceError("invalid_parameter", message, { param, hint: "send what still counts as input" });
}

const MARKS = "commas, colons and opening brackets in its items";

export class ResponseState {
  constructor(private readonly store: ResponseStore) {}

  /**
   * @param body of a POST to /v1/responses; the engine checks its other fields
   * @param isGeneration false: only the prompt's tokens are counted, and nothing is stored
   * @returns undefined if the request uses no stored answer and stores none
   */
  open(tenant: string, body: JsonObject, { isGeneration } = { isGeneration: true }): OpenTurn | undefined {
    const { previous_response_id: previousId, ...rest } = body;
    const { store } = rest;
    const hasPrevious = typeof previousId === "string";
    const isKept = isGeneration && (store === undefined || store === null || store === true);
    // Token ids and lists of them are not items; the engine refuses them.
    if (body.input instanceof Int32Array) return undefined;
    const own = itemsOf(body.input);
    if (own.some((item) => item instanceof Int32Array)) return undefined;
    const known = this.#withReferences(tenant, own);
    if (!hasPrevious && !isKept && known === own) return undefined;
    const previous = hasPrevious ? this.#find(tenant, previousId, "previous_response_id").turn : undefined;
    const changes = previous !== undefined || known !== own;
    const numMarks = (previous?.conversationMarks ?? 0) + sizeOf(known).numMarks;
    if (changes && numMarks > MAX_JSON_MARKS) {
      throw tooLong(hasPrevious ? "previous_response_id" : "input", MAX_JSON_MARKS, MARKS, numMarks);
    }
    const input = isKept ? this.#storable(known, previous) : undefined;
    const earlier = previous === undefined ? [] : conversationOf(previous);
    const sent: Record<string, unknown> = { ...rest, ...(isKept ? { store: false } : {}) };
    // A text stays one where nothing comes before it.
    if (changes) sent.input = [...earlier, ...known];
    // The engine refuses values that are no ids.
    if (!hasPrevious && previousId !== undefined) sent.previous_response_id = previousId;
    return {
      body: sent,
      previousId: hasPrevious ? previousId : null,
      isToBeStored: input !== undefined,
      finish: (response) => {
        const stored = { ...response, store: true };
        const isStored =
          input !== undefined &&
          typeof response.id === "string" &&
          this.store.put(tenant, response.id, previous, input, stored);
        return isStored ? stored : { ...response, store: false };
      },
    };
  }

  /** The input as it is kept. @returns undefined where the conversation is already too long to be */
  #storable(items: readonly unknown[], previous: Turn | undefined): StoredInput | undefined {
    const { maxConversationBytes } = this.store.limits;
    const said = withoutLogprobs(items);
    // Checked first, so that megabytes that will not be kept are not serialised.
    if (sizeOf(said).numCharacters > maxConversationBytes) return undefined;
    const input = storedInput(said);
    return (previous?.conversationBytes ?? 0) + input.json.length > maxConversationBytes ? undefined : input;
  }

  /** Answers a request for a stored response. @param url path and query @returns undefined of any other request */
  answer(tenant: string, method: string, url: string): object | undefined {
    const { pathname, searchParams } = new URL(url, "http://localhost");
    if (!isStateRequest(method, pathname)) return undefined;
    const [, id = "", rest] = STATE_PATH.exec(pathname) ?? [];
    const stored = this.#find(tenant, id, "response_id");
    if (rest === "input_items") return inputItems(stored, searchParams);
    if (rest === "cancel") {
      throw new MillraceError(
        "invalid_request",
        "expected a response that runs in the background, got one that is done",
      );
    }
    if (method === "DELETE") {
      this.store.delete(tenant, id);
      return { id, object: "response", deleted: true };
    }
    if (searchParams.get("stream") === "true") {
      throw new MillraceError("unsupported_field", 'expected no "stream", got true', {
        param: "stream",
        hint: "a stored response is given whole",
      });
    }
    return responseOf(stored);
  }

  #find(tenant: string, id: string, param: string): StoredResponse {
    const stored = this.store.get(tenant, id);
    if (stored === undefined) throw notFound("response", id, param);
    return stored;
  }

  /** The items that references name, in their place. @returns the same list where there are none */
  #withReferences(tenant: string, items: readonly unknown[]): readonly unknown[] {
    if (!items.some(isReference)) return items;
    const lists = new ReadLists(READ_BYTES_FACTOR * this.store.limits.maxConversationBytes);
    const found = items.map((item, index) => {
      if (!isReference(item)) return item;
      const known = this.#named(tenant, item.id, lists);
      if (known === undefined) throw notFound("item", item.id, `input[${index}].id`);
      return known;
    });
    // A short reference may name megabytes, and a request has room for thousands of references.
    const { maxConversationBytes } = this.store.limits;
    const { numCharacters } = sizeOf(found.filter((_, index) => isReference(items[index])));
    if (numCharacters > maxConversationBytes) {
      throw tooLong("input", maxConversationBytes, "characters in the items that references name", numCharacters);
    }
    return found;
  }

  /** The item of an id: one that it came with, or the one by which `input_items` shows it. */
  #named(tenant: string, id: string, lists: ReadLists): JsonObject | undefined {
    const stored = this.store.ofItem(tenant, id);
    if (stored !== undefined) {
      const { input, output } = stored.turn;
      return lists.byId(output).get(id) ?? lists.byId(input).get(id);
    }
    const [, responseId = "", index] = SHOWN_ID.exec(id) ?? [];
    const shown = index === undefined ? undefined : this.store.get(tenant, responseId);
    return shown === undefined ? undefined : lists.at(shown.turn, Number(index));
  }
}

/** Stored lists that one request reads: each is parsed once, however many of its items are named. */
class ReadLists {
  readonly #lists = new Map<Buffer, readonly JsonObject[]>();
  readonly #byId = new Map<Buffer, ReadonlyMap<unknown, JsonObject>>();
  /** A long conversation is walked once, too. */
  readonly #places = new Map<Turn, ReturnType<typeof placesOf>>();
  #numBytes = 0;

  constructor(private readonly maxBytes: number) {}

  of(list: Buffer): readonly JsonObject[] {
    const known = this.#lists.get(list);
    if (known !== undefined) return known;
    this.#count(list.length);
    const items = itemsIn(list);
    this.#lists.set(list, items);
    return items;
  }

  /** @param index of an item of the conversation up to the turn's own input */
  at(turn: Turn, index: number): JsonObject | undefined {
    let places = this.#places.get(turn);
    if (places === undefined) {
      places = placesOf(turn);
      this.#count(places.length * PLACE_BYTES);
      this.#places.set(turn, places);
    }
    const place = places[index];
    return place === undefined ? undefined : this.of(place.list)[place.at];
  }

  byId(list: Buffer): ReadonlyMap<unknown, JsonObject> {
    const byId = this.#byId.get(list) ?? new Map(this.of(list).map((each) => [each?.id, each]));
    this.#byId.set(list, byId);
    return byId;
  }

  #count(numBytes: number): void {
    this.#numBytes += numBytes;
    if (this.#numBytes > this.maxBytes) {
      throw tooLong("input", this.maxBytes, "bytes of stored items to look references up in", this.#numBytes);
    }
  }
}

/** A request reads this many times as much to look references up as a conversation may hold. */
const READ_BYTES_FACTOR = 4;
/** Memory of an item's place. */
const PLACE_BYTES = 64;

/** As `input_items` names an item that came without an id. */
const shownId = (responseId: string, index: number): string => `item_${responseId}_${index}`;
const SHOWN_ID = /^item_([\w-]{1,128})_(\d{1,6})$/;

function isReference(item: unknown): item is { readonly id: string } {
  const { type, id } = (item ?? {}) as { readonly type?: unknown; readonly id?: unknown };
  return type === "item_reference" && typeof id === "string";
}

const STATE_PATH = /^\/v1\/responses\/([\w-]{1,128})(?:\/(\w+))?$/;

/** Is this a request for a stored response? @param path without the query */
export function isStateRequest(method: string, path: string): boolean {
  const [matched, , rest] = STATE_PATH.exec(path) ?? [];
  if (matched === undefined) return false;
  if (rest === undefined) return method === "GET" || method === "DELETE";
  return rest === "cancel" ? method === "POST" : rest === "input_items" && method === "GET";
}

const MAX_PAGE = 100;
const DEFAULT_PAGE = 20;

/** The items of the whole conversation up to the response's own input, newest first unless the query says otherwise. */
function inputItems({ id: responseId, turn }: StoredResponse, query: URLSearchParams): object {
  const earlier = turn.previous === undefined ? [] : conversationOf(turn.previous);
  const items = [...earlier, ...inputOf(turn)].map((item, index) => shownItem(item, shownId(responseId, index)));
  if (query.get("order") !== "asc") items.reverse();
  const limit = Number(query.get("limit") ?? DEFAULT_PAGE);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE) {
    throw new MillraceError("invalid_parameter", `limit: expected an integer in [1, ${MAX_PAGE}], got another value`, {
      param: "limit",
    });
  }
  const after = query.get("after") || null;
  // An id may be there twice, as clients may give any: after the last of them no page comes again.
  const start = after === null ? 0 : items.findLastIndex(({ id }) => id === after) + 1;
  if (after !== null && start === 0) {
    throw new MillraceError("invalid_parameter", "after: expected the id of one of the items, got another", {
      param: "after",
    });
  }
  const data = items.slice(start, start + limit);
  return {
    object: "list",
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < items.length,
  };
}

/** As OpenAI shows it: with an id, its text as a part. @param stored an upstream may have answered null for an item */
function shownItem(stored: JsonObject | null, id: string): JsonObject & { readonly id: unknown } {
  const item = stored ?? {};
  const { type = "message", content } = item;
  const kind = item.role === "assistant" ? "output_text" : "input_text";
  const shown = { ...item, type, id: item.id ?? id };
  return typeof content === "string" ? { ...shown, content: [{ type: kind, text: content }] } : shown;
}
