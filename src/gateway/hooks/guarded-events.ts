/**
 * The texts in the events of a stream, of every API. Texts come as deltas, which belong to channels (a choice's
 * content, a tool call's arguments, …); the held text of a channel is sent before the event that ends it.
 */
import type { JsonObject } from "../../core/json-body.js";
import { type Findings, type Guard, GuardedText } from "./guard.js";
import { mapAnswerTexts, withoutSpelling } from "./texts.js";

/** A delta in an event. */
interface Delta {
  readonly channel: string;
  readonly text: string;
  /** Replaces the delta's text in the event. */
  readonly with: (data: JsonObject, text: string) => JsonObject;
}

interface Channel {
  readonly guarded: GuardedText;
  /**
   * The last event of the channel, without its deltas, as a form for an event of ours. Undefined while the first event
   * is read.
   */
  form: { readonly head: string; readonly data: JsonObject; readonly delta: Delta } | undefined;
}

/** No answer has more channels; further ones are refused rather than let through. */
const MAX_CHANNELS = 4096;

export class GuardedEvents {
  readonly #channels = new Map<string, Channel>();
  readonly #kept = new Map<string, string[]>();
  #sequence: number | undefined;

  constructor(
    private readonly guards: readonly Guard[],
    private readonly findings: Findings,
    private readonly hidesSpelling: boolean,
    /** Whether a checker will ask for the texts. */
    private readonly keepsTexts: boolean,
  ) {}

  /** The texts so far, one of each channel. */
  texts(): readonly string[] {
    return [...this.#kept.values()].map((parts) => parts.join(""));
  }

  /**
   * @param event one event, with the empty line at its end
   * @returns the events to send. Throws guardrail_refused and guardrail_failed
   */
  push(event: string): string {
    const { head, json } = partsOf(event);
    if (json === undefined || json === "") return head === "" ? "" : `${head}\n`;
    if (json.trim() === "[DONE]") return `${this.#close("")}${head}data: [DONE]\n\n`;
    let data = JSON.parse(json) as JsonObject;
    if (typeof data !== "object" || data === null || Array.isArray(data)) throw new SyntaxError("expected an object");
    if (this.hidesSpelling) data = withoutSpelling(data);
    const deltas = deltasIn(data);
    for (const delta of deltas) {
      if (this.keepsTexts) this.#keep(delta);
      const channel = this.#channelOf(delta);
      data = delta.with(data, channel.guarded.push(delta.text));
    }
    let before = "";
    for (const prefix of endsIn(data)) {
      for (const delta of deltas) {
        if (!delta.channel.startsWith(prefix)) continue;
        // The event that ends the channel has a delta itself, which gets the rest.
        const rest = this.#channels.get(delta.channel)?.guarded.end() ?? "";
        this.#channels.delete(delta.channel);
        if (rest !== "") data = delta.with(data, shownText(delta, data) + rest);
      }
      before += this.#close(prefix);
    }
    return before + this.#written(head, this.#others(head, data, deltas));
  }

  /** The event with its other texts, such as annotations, searched: each comes whole. */
  #others(head: string, data: JsonObject, deltas: readonly Delta[]): JsonObject {
    const shown = deltas.map((delta) => shownText(delta, data));
    const bare = deltas.reduce((event, delta) => delta.with(event, ""), data);
    const repeats = repeatsTexts(data);
    let hasOthers = false;
    const clean = mapAnswerTexts(bare, (text) => {
      hasOthers = true;
      if (this.keepsTexts && !repeats) this.#keep({ channel: "others", text: `${text}\n` });
      return this.#whole(text);
    });
    // Held-back text later goes out in a copy of this event; an event that has no other texts is preferred, since a
    // copy would repeat them.
    for (const delta of deltas) {
      const channel = this.#channels.get(delta.channel);
      if (channel !== undefined && !(hasOthers && channel.form)) channel.form = { head, data: silent(clean), delta };
    }
    return deltas.reduce((event, delta, i) => delta.with(event, shown[i]!), clean);
  }

  /** The held text, if a stream ends without a last event. */
  end(): string {
    return this.#close("");
  }

  #channelOf(delta: Delta): Channel {
    const known = this.#channels.get(delta.channel);
    if (known !== undefined) return known;
    if (this.#channels.size >= MAX_CHANNELS)
      throw new Error(`expected at most ${MAX_CHANNELS} texts in a stream, got more`);
    const channel = { guarded: new GuardedText(this.guards, "answer", this.findings), form: undefined };
    this.#channels.set(delta.channel, channel);
    return channel;
  }

  #keep({ channel, text }: Pick<Delta, "channel" | "text">): void {
    const parts = this.#kept.get(channel) ?? [];
    parts.push(text);
    this.#kept.set(channel, parts);
  }

  #close(prefix: string): string {
    let events = "";
    for (const [name, { guarded, form }] of this.#channels) {
      if (!name.startsWith(prefix)) continue;
      this.#channels.delete(name);
      const rest = guarded.end();
      if (rest !== "" && form !== undefined) events += this.#written(form.head, form.delta.with(form.data, rest));
    }
    return events;
  }

  #whole(text: string): string {
    const guarded = new GuardedText(this.guards, "answer", this.findings);
    return guarded.push(text) + guarded.end();
  }

  /** Writes an event of ours, numbered like the others. */
  #written(head: string, data: JsonObject): string {
    let numbered = data;
    if (typeof data.sequence_number === "number") {
      this.#sequence ??= data.sequence_number;
      numbered = { ...data, sequence_number: this.#sequence++ };
    }
    return `${head}data: ${JSON.stringify(numbered)}\n\n`;
  }
}

/** Lines that clients heed, beside those of data. A comment keeps a connection alive; its text is dropped. */
const KEPT_LINE = /^(?:(?:event|id): ?[\w.:-]{0,128}|retry: ?\d{1,9}|:)$/;

/** The lines of an event without its data, and its data. */
function partsOf(event: string): { readonly head: string; readonly json: string | undefined } {
  const head: string[] = [];
  const data: string[] = [];
  for (const line of event.split(/\r?\n/)) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line === "data") data.push("");
    else {
      const kept = line.startsWith(":") ? ":" : line;
      if (KEPT_LINE.test(kept)) head.push(`${kept}\n`);
    }
  }
  return { head: head.join(""), json: data.length === 0 ? undefined : data.join("\n") };
}

const objectOf = (value: unknown): JsonObject =>
  typeof value === "object" && value !== null ? (value as JsonObject) : {};
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** An event without spoken audio, which a copy must not repeat. */
function silent(data: JsonObject): JsonObject {
  const isHeard = ({ delta }: JsonObject): boolean => "data" in objectOf(objectOf(delta).audio);
  if (!listOf(data.choices).some((choice) => isHeard(objectOf(choice)))) return data;
  const choices = listOf(data.choices).map((each) => {
    const choice = objectOf(each);
    if (!isHeard(choice)) return choice;
    const delta = objectOf(choice.delta);
    const { data: _, ...audio } = objectOf(delta.audio);
    return { ...choice, delta: { ...delta, audio } };
  });
  return { ...data, choices };
}

function shownText(delta: Delta, data: JsonObject): string {
  return deltasIn(data).find(({ channel }) => channel === delta.channel)?.text ?? "";
}

function deltasIn(data: JsonObject): readonly Delta[] {
  if (Array.isArray(data.choices)) return data.choices.flatMap((choice, at) => choiceDeltas(objectOf(choice), at));
  if (data.type === "content_block_delta") return blockDeltas(data);
  if (typeof data.type === "string" && data.type.endsWith(".delta") && typeof data.delta === "string") {
    const channel = responseChannel(data, data.type);
    return [{ channel, text: data.delta, with: (event, delta) => ({ ...event, delta }) }];
  }
  return [];
}

/**
 * Texts within a member of a chat's delta: the transcript of a spoken answer, and a function's call in the form before
 * tools.
 */
const NESTED = [
  ["audio", "transcript"],
  ["function_call", "arguments"],
] as const;

/** Deltas of OpenAI's chat and completions. */
function choiceDeltas(choice: JsonObject, at: number): readonly Delta[] {
  const index = `${Number(choice.index ?? at)}:`;
  const deltas: Delta[] = [];
  const changed = (data: JsonObject, change: (choice: JsonObject) => JsonObject): JsonObject => ({
    ...data,
    choices: listOf(data.choices).map((each, i) => (i === at ? change(objectOf(each)) : each)),
  });
  if (typeof choice.text === "string") {
    deltas.push({
      channel: `${index}text`,
      text: choice.text,
      with: (data, text) => changed(data, (each) => ({ ...each, text })),
    });
  }
  const delta = objectOf(choice.delta);
  for (const field of ["content", "reasoning_content", "reasoning", "refusal"]) {
    const text = delta[field];
    if (typeof text !== "string") continue;
    const put = (each: JsonObject, value: string) => ({ ...each, delta: { ...objectOf(each.delta), [field]: value } });
    deltas.push({
      channel: `${index}${field}`,
      text,
      with: (data, value) => changed(data, (each) => put(each, value)),
    });
  }
  for (const [holder, field] of NESTED) {
    const text = objectOf(delta[holder])[field];
    if (typeof text !== "string") continue;
    const put = (each: JsonObject, value: string): JsonObject => {
      const next = objectOf(each.delta);
      return { ...each, delta: { ...next, [holder]: { ...objectOf(next[holder]), [field]: value } } };
    };
    deltas.push({
      channel: `${index}${holder}`,
      text,
      with: (data, value) => changed(data, (each) => put(each, value)),
    });
  }
  for (const [i, call] of listOf(delta.tool_calls).entries()) {
    const { index: number, function: called } = objectOf(call);
    const { arguments: text } = objectOf(called);
    if (typeof text !== "string") continue;
    const put = (each: JsonObject, value: string): JsonObject => {
      const calls = listOf(objectOf(each.delta).tool_calls).map((one, k) =>
        k === i ? { ...objectOf(one), function: { ...objectOf(objectOf(one).function), arguments: value } } : one,
      );
      return { ...each, delta: { ...objectOf(each.delta), tool_calls: calls } };
    };
    deltas.push({
      channel: `${index}call:${Number(number ?? i)}`,
      text,
      with: (data, value) => changed(data, (each) => put(each, value)),
    });
  }
  return deltas;
}

/** Deltas of Anthropic's messages. */
function blockDeltas(data: JsonObject): readonly Delta[] {
  const delta = objectOf(data.delta);
  return ["text", "thinking", "partial_json"].flatMap((field): Delta[] => {
    const text = delta[field];
    if (typeof text !== "string") return [];
    const put = (event: JsonObject, value: string) => ({
      ...event,
      delta: { ...objectOf(event.delta), [field]: value },
    });
    return [{ channel: `${Number(data.index)}:${field}`, text, with: put }];
  });
}

/** The channel of a /v1/responses text: an item's part, and the kind of the text. */
function responseChannel(data: JsonObject, deltaType: string): string {
  const place = [data.output_index, data.content_index ?? data.summary_index ?? ""].map((value) =>
    String(value).slice(0, 16),
  );
  return `${place.join(":")}:${deltaType.slice(0, 80)}`;
}

/** Prefixes of the channels that end with an event. */
function endsIn(data: JsonObject): readonly string[] {
  if (Array.isArray(data.choices)) {
    return data.choices.flatMap((each, at) => {
      const choice = objectOf(each);
      const isOver = choice.finish_reason !== null && choice.finish_reason !== undefined;
      return isOver ? [`${Number(choice.index ?? at)}:`] : [];
    });
  }
  const { type } = data;
  if (type === "content_block_stop") return [`${Number(data.index)}:`];
  if (type === "message_delta" || type === "message_stop") return [""];
  if (typeof type !== "string" || !type.startsWith("response.")) return [];
  if (type === "response.output_item.done") return [`${String(data.output_index).slice(0, 16)}:`];
  if (type.endsWith(".done")) return [responseChannel(data, type.replace(/\.done$/, ".delta"))];
  return ["response.completed", "response.incomplete", "response.failed"].includes(type) ? [""] : [];
}

/** Whether an event of /v1/responses only repeats earlier texts. */
function repeatsTexts({ type }: JsonObject): boolean {
  return typeof type === "string" && /^response\.(?:.*\.done|completed|incomplete|failed)$/.test(type);
}

/** The texts of a stream's beginning, by channel; the text alone if there is one. */
export function streamedTexts(stream: string): unknown {
  const texts = new Map<string, string>();
  for (const line of stream.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    try {
      const deltas = deltasIn(objectOf(JSON.parse(line.slice(6))));
      for (const { channel, text } of deltas) texts.set(channel, (texts.get(channel) ?? "") + text);
    } catch {
      // The last event may be cut.
    }
  }
  return texts.size === 1 ? [...texts.values()][0] : Object.fromEntries(texts);
}
