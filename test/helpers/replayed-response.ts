/**
 * A stream of /v1/responses as a strict client reads it: every event has the next number, one item is open at a time,
 * and each text that is said to be whole is what its pieces gave.
 */
import { expect } from "vitest";

type Json = Record<string, unknown>;
interface Item extends Json {
  type: string;
  content?: Json[];
  summary?: Json[];
}

interface Replayed {
  /** The items, put together from their pieces alone. */
  readonly output: readonly Item[];
  /** The response of the last event; undefined: the stream breaks off. */
  readonly response: Json | undefined;
}

export function eventsOf(stream: string): { readonly type: string; readonly [name: string]: unknown }[] {
  return stream.split("\n\n").flatMap((each) => {
    const [, name, data] = /^event: (\S+)\ndata: ([^\n]*)$/.exec(each) ?? [];
    if (data === undefined) return [];
    const event = JSON.parse(data);
    expect(event.type).toBe(name);
    return [event];
  });
}

export function replayed(stream: string): Replayed {
  const events = eventsOf(stream);
  const output: Item[] = [];
  let open: Item | undefined;
  let response: Json | undefined;
  for (const [at, event] of events.entries()) {
    expect(event.sequence_number).toBe(at);
    expect(response).toBeUndefined();
    const { type } = event;
    if (at < 2) {
      expect(type).toBe(at === 0 ? "response.created" : "response.in_progress");
      expect(event.response).toMatchObject({ object: "response", status: "in_progress", output: [], usage: null });
    } else if (type === "response.output_item.added") {
      expect([open, event.output_index]).toEqual([undefined, output.length]);
      open = structuredClone(event.item) as Item;
      output.push(open);
    } else if (type === "response.output_item.done") {
      const { status, encrypted_content, ...item } = event.item as Item;
      expect({ ...open, status: undefined, encrypted_content: undefined }).toEqual(item);
      Object.assign(open!, { status }, encrypted_content === undefined ? {} : { encrypted_content });
      open = undefined;
    } else if (/^response\.(completed|incomplete)$/.test(type)) {
      expect(open).toBeUndefined();
      response = event.response as Json;
      expect(type).toBe(`response.${response.status}`);
      expect(response.output).toEqual(output);
    } else take(event, open!, output.length - 1);
  }
  return { output, response };
}

/** An event of the open item's text. */
function take(event: { readonly type: string; readonly [name: string]: unknown }, open: Item, index: number): void {
  expect([event.item_id, event.output_index]).toEqual([open.id, index]);
  const { type } = event;
  if (type.startsWith("response.function_call_arguments")) {
    if (type.endsWith(".delta")) open.arguments = `${open.arguments}${event.delta}`;
    else expect([event.arguments, event.name]).toEqual([open.arguments, open.name]);
    return;
  }
  const isSummary = type.startsWith("response.reasoning_summary");
  expect(isSummary ? event.summary_index : event.content_index).toBe(0);
  const parts = (isSummary ? open.summary : open.content)!;
  if (type.endsWith("part.added")) parts.push(structuredClone(event.part) as Json);
  else if (type.endsWith("part.done")) expect(event.part).toEqual(parts[0]);
  else if (type.endsWith("text.delta")) (parts[0] as { text: string }).text += event.delta as string;
  else expect([type.endsWith("text.done"), event.text]).toEqual([true, parts[0]!.text]);
}
