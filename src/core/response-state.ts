/**
 * Keeps answers of /v1/responses between requests, at the server that clients reach: later requests continue stored
 * answers, and clients can fetch them.
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

/** A request in the engine's form, without storage, and the place for its stored answer. */
export interface OpenTurn {
  /** With the complete conversation as input. */
  readonly body: JsonObject;
  readonly previousId: string | null;
  /** Whether the answer will be kept, unless it becomes too long: the value of `store` until the answer is complete. */
  readonly isToBeStored: boolean;
  /** Takes the complete answer, and keeps it if it can. @returns the answer; its `store` says whether it is kept */
  finish<T extends JsonObject>(response: T): T & { readonly store: boolean };
}

/**
 * On the paths of stored responses the error is `not_found`; for a request that continues one, the error is OpenAI's.
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
  /** Characters in strings; the value's JSON has more. */
  readonly numCharacters: number;
  /** See MAX_JSON_MARKS; beyond that limit, counting of both stops. */
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
    // Count a bracket and the commas, and an object's colons.
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
   * @param body JSON of a POST to /v1/responses; the engine checks its other fields
   * @param isGeneration false: the request only counts the prompt's tokens, and stores nothing
   * @returns undefined if the request neither uses nor stores an answer
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
    // A text input stays a text if no items precede it.
    if (changes) sent.input = [...earlier, ...known];
    // The engine refuses values that are not ids.
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

  /** The input in its stored form. @returns undefined if the conversation is already too long */
  #storable(items: readonly unknown[], previous: Turn | undefined): StoredInput | undefined {
    const { maxConversationBytes } = this.store.limits;
    const said = withoutLogprobs(items);
    // Checked first, so that megabytes are not serialised in vain.
    if (sizeOf(said).numCharacters > maxConversationBytes) return undefined;
    const input = storedInput(said);
    return (previous?.conversationBytes ?? 0) + input.json.length > maxConversationBytes ? undefined : input;
  }

  /** Answers a request for a stored response. @param url path and query @returns undefined for any other request */
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

  /** Replaces references by their items. @returns the same list if it has no references */
  #withReferences(tenant: string, items: readonly unknown[]): readonly unknown[] {
    if (!items.some(isReference)) return items;
    const lists = new ReadLists(READ_BYTES_FACTOR * this.store.limits.maxConversationBytes);
    const found = items.map((item, index) => {
      if (!isReference(item)) return item;
      const known = this.#named(tenant, item.id, lists);
      if (known === undefined) throw notFound("item", item.id, `input[${index}].id`);
      return known;
    });
    // A short reference may stand for megabytes, and a request may have thousands of references.
    const { maxConversationBytes } = this.store.limits;
    const { numCharacters } = sizeOf(found.filter((_, index) => isReference(items[index])));
    if (numCharacters > maxConversationBytes) {
      throw tooLong("input", maxConversationBytes, "characters in the items that references name", numCharacters);
    }
    return found;
  }

  /** The item with an id: its own, or the one that `input_items` gave it. */
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

/** The stored lists that one request reads: each is parsed once, however many of its items the request names. */
class ReadLists {
  readonly #lists = new Map<Buffer, readonly JsonObject[]>();
  readonly #byId = new Map<Buffer, ReadonlyMap<unknown, JsonObject>>();
  /** A long conversation is also walked only once. */
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

  /** @param index position of an item in the conversation up to the turn's own input */
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

/** A request's look-ups may read this many times the limit of a conversation. */
const READ_BYTES_FACTOR = 4;
/** Memory of an item's place. */
const PLACE_BYTES = 64;

/** The id in `input_items` of an item without its own. */
const shownId = (responseId: string, index: number): string => `item_${responseId}_${index}`;
const SHOWN_ID = /^item_([\w-]{1,128})_(\d{1,6})$/;

function isReference(item: unknown): item is { readonly id: string } {
  const { type, id } = (item ?? {}) as { readonly type?: unknown; readonly id?: unknown };
  return type === "item_reference" && typeof id === "string";
}

const STATE_PATH = /^\/v1\/responses\/([\w-]{1,128})(?:\/(\w+))?$/;

/** Whether the request is for a stored response. @param path without the query */
export function isStateRequest(method: string, path: string): boolean {
  const [matched, , rest] = STATE_PATH.exec(path) ?? [];
  if (matched === undefined) return false;
  if (rest === undefined) return method === "GET" || method === "DELETE";
  return rest === "cancel" ? method === "POST" : rest === "input_items" && method === "GET";
}

const MAX_PAGE = 100;
const DEFAULT_PAGE = 20;

/**
 * The items of the complete conversation up to the response's own input, newest first unless the query says otherwise.
 */
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
  // Clients may repeat an id: paging continues after its last item, so that no page comes twice.
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

/** In OpenAI's form: with an id, and the text as a part. @param stored null if an upstream answered null for an item */
function shownItem(stored: JsonObject | null, id: string): JsonObject & { readonly id: unknown } {
  const item = stored ?? {};
  const { type = "message", content } = item;
  const kind = item.role === "assistant" ? "output_text" : "input_text";
  const shown = { ...item, type, id: item.id ?? id };
  return typeof content === "string" ? { ...shown, content: [{ type: kind, text: content }] } : shown;
}
