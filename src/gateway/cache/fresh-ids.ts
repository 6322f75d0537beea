/** Gives a repeated answer an id and a time of its own, since clients and stores identify answers by their ids. */
import { randomBytes, randomUUID } from "node:crypto";
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";

/** Everything before the random part of an id. */
const ID = /^([A-Za-z]{1,24}[-_])([0-9A-Za-z_-]{8,128})$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const HEX = /^[0-9a-f]+$/;

/** A longer answer passes unchanged. */
const MAX_HELD_BYTES = 8 * 1024 * 1024;

/**
 * Only whole members are replaced. Text within an answer cannot match one, since its quotes are escaped. Ids of items
 * and calls stay: clients send them back in the next request, which then still equals an earlier request.
 */
export class FreshIds extends PassingSink {
  #isWhole = false;
  #edit: ((bytes: Buffer) => Buffer) | undefined;
  #held: Buffer[] = [];
  #numHeld = 0;

  constructor(
    next: AnswerSink,
    private readonly nowSeconds: () => number = () => Math.floor(Date.now() / 1000),
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.#isWhole = !head.isEventStream;
    super.begin(head);
  }

  override write(bytes: Buffer): boolean {
    if (!this.#isWhole) return super.write(this.#fresh(bytes));
    // A member may be cut between two writes.
    this.#held.push(bytes);
    this.#numHeld += bytes.length;
    if (this.#numHeld <= MAX_HELD_BYTES) return true;
    this.#isWhole = false;
    this.#edit = (each) => each;
    return super.write(this.#take());
  }

  override end(last?: Buffer): void {
    if (last !== undefined) this.write(last);
    super.end(this.#held.length === 0 ? undefined : this.#fresh(this.#take()));
  }

  #take(): Buffer {
    const bytes = this.#held.length === 1 ? this.#held[0]! : Buffer.concat(this.#held);
    this.#held = [];
    return bytes;
  }

  #fresh(bytes: Buffer): Buffer {
    this.#edit ??= editOf(bytes, this.#isWhole, this.nowSeconds());
    return this.#edit?.(bytes) ?? bytes;
  }
}

/** @param first the whole answer, or the first events of a stream @returns undefined while there is no id */
function editOf(first: Buffer, isWhole: boolean, nowSeconds: number): ((bytes: Buffer) => Buffer) | undefined {
  const named = isWhole ? parse(first.toString()) : firstEvent(first);
  if (named === undefined) return undefined;
  const { id, created, created_at: createdAt } = named;
  const fresh = typeof id === "string" ? freshId(id) : undefined;
  const edits: (readonly [from: string, to: string])[] = [];
  if (fresh !== undefined) {
    for (const space of ["", " "]) edits.push([`"id":${space}"${id}"`, `"id":${space}"${fresh}"`]);
  }
  for (const [name, value] of [
    ["created", created],
    ["created_at", createdAt],
  ] as const) {
    // A number of another length would change the answer's length.
    if (typeof value !== "number" || String(value).length !== String(nowSeconds).length) continue;
    for (const space of ["", " "]) edits.push([`"${name}":${space}${value}`, `"${name}":${space}${nowSeconds}`]);
  }
  if (edits.length === 0) return undefined;
  return (bytes) => edited(bytes, [...completionEdits(bytes, createdAt, nowSeconds), ...edits]);
}

/**
 * Edits of a response's completion time, which only a stream's last event has. The time counts only right after the
 * `created_at` of this response, which no request and no model can know: a member of the same name in metadata or in a
 * tool's input stays.
 */
function completionEdits(
  bytes: Buffer,
  createdAt: unknown,
  nowSeconds: number,
): readonly (readonly [string, string])[] {
  if (typeof createdAt !== "number" || !bytes.includes('"completed_at"')) return [];
  const pattern = new RegExp(`"created_at": ?${createdAt}, ?"completed_at": ?(\\d+)`);
  const [members, seconds] = pattern.exec(bytes.toString("latin1")) ?? [];
  if (members === undefined || seconds?.length !== String(nowSeconds).length) return [];
  return [[members, members.slice(0, -seconds.length) + nowSeconds]];
}

interface Named {
  readonly id?: unknown;
  readonly created?: unknown;
  readonly created_at?: unknown;
}

/** The first event with data; Anthropic's and OpenAI's newer events have the object as a member. */
function firstEvent(bytes: Buffer): Named | undefined {
  const [, json] = /^data: ?(\{[^\r\n]*)/m.exec(bytes.toString("utf8", 0, Math.min(bytes.length, 64 * 1024))) ?? [];
  const value = json === undefined ? undefined : parse(json);
  return (value?.response ?? value?.message ?? value) as Named | undefined;
}

function freshId(id: string): string | undefined {
  const [, prefix, rest] = ID.exec(id) ?? [];
  if (prefix === undefined || rest === undefined) return undefined;
  if (UUID.test(rest)) return prefix + randomUUID();
  const bytes = randomBytes(Math.ceil(rest.length / 2));
  return (
    prefix +
    (HEX.test(rest) ? bytes.toString("hex") : randomBytes(rest.length).toString("base64url")).slice(0, rest.length)
  );
}

/** All edits keep their length, so they are made in place, in a copy. */
function edited(bytes: Buffer, edits: readonly (readonly [string, string])[]): Buffer {
  let copy: Buffer | undefined;
  for (const [from, to] of edits) {
    for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + from.length)) {
      const after = bytes[at + from.length];
      // The value is the beginning of a longer number.
      if (after !== undefined && after >= 0x30 && after <= 0x39) continue;
      copy ??= Buffer.from(bytes);
      copy.write(to, at, "latin1");
    }
  }
  return copy ?? bytes;
}

function parse(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}
