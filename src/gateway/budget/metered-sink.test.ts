import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { BufferSink } from "../answer.js";
import { MeteredSink } from "./metered-sink.js";
import { cutStream } from "./refusals.js";
import type { ResizeResult } from "./store.js";
import { StreamUsage } from "./stream-usage.js";
import { WorstCost } from "./worst-cost.js";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const PROMPT = 10;
const HEAD = { status: 200, headers: {}, isEventStream: true };
const COST = new WorstCost({ version: "1", fresh: 1_000_000n, cacheRead: 0n, cacheWrite: 0n, output: 1_000_000n });

const event = (output: number): Buffer => {
  const usage = { prompt_tokens: PROMPT, total_tokens: PROMPT + output, completion_tokens: output };
  return Buffer.from(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x" } }], usage })}\n\n`);
};
const outputOf = (bytes: Buffer): number => Number(/.*"completion_tokens":(\d+)/s.exec(bytes.toString())?.[1] ?? 0);

interface Terms {
  readonly money: number;
  readonly maxOutputTokens?: number;
  readonly resize: (want: number, least: number) => Promise<ResizeResult>;
  readonly onCut?: () => void;
  readonly onBroken?: () => void;
}

function metered({ money, maxOutputTokens, resize, onCut = () => {}, onBroken = () => {} }: Terms) {
  const client = new BufferSink();
  const sink = new MeteredSink(client, {
    usage: new StreamUsage(1),
    bytesPerToken: undefined,
    cost: COST,
    isStream: true,
    promptTokens: 200,
    outputTokens: 100,
    maxOutputTokens,
    money,
    resize,
    cut() {
      onCut();
      return cutStream();
    },
    broken: onBroken,
  });
  sink.begin(HEAD);
  return { client, sink };
}

const chunk = fc.record({ added: fc.integer({ min: 0, max: 200 }), pause: fc.boolean() });

test("whatever the store answers, a client gets no more than is reserved, in order, and all of it where the money lasts", async () => {
  const answer = fc.constantFrom("now", "later", "down");
  await fc.assert(
    fc.asyncProperty(
      fc.array(chunk, { maxLength: 30 }),
      fc.array(answer),
      fc.nat(3_000),
      async (chunks, answers, more) => {
        let granted = 210;
        const limit = granted + more;
        let cuts = 0;
        const resize = async (want: number, least: number): Promise<ResizeResult> => {
          const how = answers.shift();
          if (how === "down") throw new MillraceError("budget_store_failed", "down");
          if (how === "later") await new Promise((resolve) => setTimeout(resolve, 50));
          const money = Math.min(want, limit);
          if (money < least) return { kind: "refused", isHeld: false };
          granted = money;
          return { kind: "resized", money };
        };
        const { client, sink } = metered({ money: granted, resize, onCut: () => cuts++ });
        const sent: Buffer[] = [];
        let most = granted;
        let output = 0;
        for (const { added, pause } of chunks) {
          output += added;
          const bytes = event(output);
          sent.push(bytes);
          if (!sink.write(bytes)) {
            let isWelcome = false;
            sink.onDrain(() => {
              isWelcome = true;
            });
            for (let i = 0; i < 60 && !isWelcome && client.answer() === undefined; i++)
              await vi.advanceTimersByTimeAsync(100);
          }
          if (pause) await vi.advanceTimersByTimeAsync(10);
          most = Math.max(most, granted);
          if (client.answer() !== undefined) break;
        }
        sink.end();
        for (let i = 0; i < 60 && client.answer() === undefined; i++) await vi.advanceTimersByTimeAsync(100);
        const got = client.answer()!;
        const whole = Buffer.concat(sent);
        expect(whole.subarray(0, got.body.length).equals(got.body)).toBe(true);
        expect(cuts).toBe(got.error === undefined ? 0 : 1);
        if (got.body.length > 0) expect(PROMPT + outputOf(got.body)).toBeLessThanOrEqual(Math.max(most, granted));
        expect(sink.delivered?.output ?? 0).toBe(outputOf(got.body));
        if (got.error === undefined) expect(got.body.length).toBe(whole.length);
        else expect(PROMPT + output).toBeGreaterThan(limit - 1 - 200);
      },
    ),
    // An event that needs more arrives while the reservation returns the prompt's unused part.
    { examples: [[[0, 95, 106].map((added) => ({ added, pause: false })), [], 0]] },
  );
});

test("an answer that its server breaks off while events are held is noted as it was passed on", () => {
  const noted: (number | undefined)[] = [];
  const resize = () => new Promise<ResizeResult>(() => {});
  const { client, sink } = metered({ money: 210, resize, onBroken: () => noted.push(sink.delivered?.output) });
  sink.write(event(100));
  sink.write(event(900));
  const error = new MillraceError("upstream_failed", "gone");
  sink.breakOff(error);
  sink.breakOff(error);
  expect(client.answer()).toMatchObject({ error });
  expect(client.answer()!.body.equals(event(100))).toBe(true);
  expect(noted).toEqual([100]);
});

test("a stream waits for what others hold, and is cut when it does not come back", async () => {
  let isHeld = true;
  const resize = async (want: number): Promise<ResizeResult> =>
    isHeld ? { kind: "refused", isHeld: true } : { kind: "resized", money: want };
  const waiting = metered({ money: 210, resize });
  expect(waiting.sink.write(event(400))).toBe(false);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(waiting.client.numBytes).toBe(0);
  isHeld = false;
  await vi.advanceTimersByTimeAsync(200);
  expect(waiting.client.numBytes).toBe(event(400).length);
  isHeld = true;
  const cut = metered({ money: 210, resize });
  cut.sink.write(event(400));
  await vi.advanceTimersByTimeAsync(1_900);
  expect(cut.client.answer()).toBeUndefined();
  await vi.advanceTimersByTimeAsync(500);
  expect(cut.client.answer()).toMatchObject({ error: { code: "budget_exceeded" } });
});

test("the last token that is paid for is passed on, and not the one after it", () => {
  const { client, sink } = metered({ money: 210, resize: () => new Promise<ResizeResult>(() => {}) });
  expect(sink.write(event(200))).toBe(true);
  expect(sink.write(event(201))).toBe(false);
  expect(client.numBytes).toBe(event(200).length);
});

test("a stream whose longest answer is paid for asks for no more, and its counts are those of all that was passed on", () => {
  const resize = vi.fn(() => new Promise<ResizeResult>(() => {}));
  const { client, sink } = metered({ money: 180, maxOutputTokens: 50, resize });
  for (let output = 1; output <= 50; output++) expect(sink.write(event(output))).toBe(true);
  expect(client.numBytes).toBe(Array.from({ length: 50 }, (_, i) => event(i + 1).length).reduce((sum, n) => sum + n));
  expect(sink.delivered).toMatchObject({ fresh: PROMPT, output: 50 });
  expect(resize).not.toHaveBeenCalled();
});

test("an upstream that makes more than it was asked for is held after a few events", async () => {
  const resize = async (): Promise<ResizeResult> => ({ kind: "refused", isHeld: false });
  const { client, sink } = metered({ money: 250, maxOutputTokens: 50, resize });
  let output = 0;
  while (output < 500 && sink.write(event(output + 1))) output++;
  // Its reservation pays 240 tokens, and 8 KiB hold fewer than 60 events.
  expect(output).toBeLessThan(300);
  await vi.advanceTimersByTimeAsync(0);
  expect(client.answer()).toMatchObject({ error: { code: "budget_exceeded" } });
  expect(sink.delivered?.output).toBe(output);
});

test("texts of a server that reports nothing are passed on before they are counted, and never beyond the money", () => {
  const text = (length: number) =>
    Buffer.from(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "x".repeat(length) } }] })}\n\n`);
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 40 }), (lengths) => {
      const client = new BufferSink();
      const usage = new StreamUsage(3);
      const sink = new MeteredSink(client, {
        usage,
        bytesPerToken: 3,
        cost: COST,
        isStream: true,
        promptTokens: PROMPT,
        outputTokens: 100,
        maxOutputTokens: undefined,
        money: 1_000,
        resize: () => new Promise<ResizeResult>(() => {}),
        cut: cutStream,
        broken() {},
      });
      sink.begin(HEAD);
      let passed = 0;
      for (const length of lengths) {
        if (!sink.write(text(length))) break;
        passed += length;
      }
      expect(PROMPT + Math.ceil(passed / 3)).toBeLessThanOrEqual(1_000);
      if (passed === lengths.reduce((sum, length) => sum + length, 0)) return;
      expect(PROMPT + Math.ceil((passed + 400) / 3)).toBeGreaterThan(1_000);
    }),
  );
});
