/** The framings of providers' streams, AWS's signature, and the headers of rate limits. */
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { awsFrame } from "../../../../test/helpers/providers/bedrock-server.js";
import { FrameReader } from "./aws-frames.js";
import { ByteList } from "./byte-list.js";
import { rateLimitsOf, retryDelayOf } from "./rate-limits.js";
import { Redactor } from "./redact.js";
import { awsEncode, signature, signedHeaders } from "./sigv4.js";
import { EventReader, MAX_EVENT_BYTES, type SentEvent } from "./sse.js";

/** The bytes in pieces that end at the given places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const sorted = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return sorted.slice(1).map((end, i) => bytes.subarray(sorted[i], end));
}
const places = fc.array(fc.nat(), { maxLength: 20 });

describe("server-sent events", () => {
  const read = (pieces: readonly Buffer[]): SentEvent[] => {
    const events: SentEvent[] = [];
    const reader = new EventReader();
    for (const piece of pieces) reader.push(piece, (event) => events.push(event));
    return events;
  };

  test("as the specification has them, with each kind of line end", () => {
    for (const end of ["\n", "\r\n", "\r"]) {
      const lines = [
        ": a comment",
        "event: first",
        "data: one",
        "data:two",
        "id: 7",
        "",
        "",
        "data",
        "",
        "event: none",
        "",
        "data: cut off",
      ];
      expect(read([Buffer.from(lines.join(end))])).toEqual([
        { name: "first", data: "one\ntwo" },
        { name: "", data: "" },
      ]);
    }
  });

  test("the same however they are cut, also inside characters and line ends", () => {
    const line = fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("data: 😀", "event: x", "data:", ":", ""));
    fc.assert(
      fc.property(fc.array(line), fc.constantFrom("\n", "\r\n", "\r"), places, (lines, end, at) => {
        const bytes = Buffer.from(lines.join(end));
        expect(read(cut(bytes, at))).toEqual(read([bytes]));
      }),
    );
  });

  test("an event without end is refused, and comments without end are not", () => {
    const piece = Buffer.alloc(64 * 1024, "x");
    const reader = new EventReader();
    const endless = () => {
      for (let numBytes = 0; numBytes <= MAX_EVENT_BYTES; numBytes += piece.length) reader.push(piece, () => {});
    };
    expect(endless).toThrow(/events of at most/);
    const patient = new EventReader();
    for (let i = 0; i < 100; i++) patient.push(Buffer.concat([Buffer.from(": "), piece, Buffer.from("\n")]), () => {});
  });
});

describe("AWS's event streams", () => {
  const read = (pieces: readonly Buffer[]) => {
    const frames: { headers: object; payload: string }[] = [];
    const reader = new FrameReader();
    for (const piece of pieces) {
      reader.push(piece, ({ headers, payload }) =>
        frames.push({ headers: Object.fromEntries(headers), payload: payload.toString("base64") }),
      );
    }
    reader.end();
    return frames;
  };
  const frame = fc.record({
    headers: fc.dictionary(
      fc.string({ minLength: 1, maxLength: 20, unit: "grapheme-ascii" }),
      fc.string({ maxLength: 50 }),
    ),
    payload: fc.uint8Array({ maxLength: 200 }),
  });

  test("are read back, however they are cut", () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 5 }), places, (frames, at) => {
        const bytes = Buffer.concat(frames.map(({ headers, payload }) => awsFrame(headers, Buffer.from(payload))));
        const expected = frames.map(({ headers, payload }) => ({
          headers: { ...headers },
          payload: Buffer.from(payload).toString("base64"),
        }));
        expect(read(cut(bytes, at))).toEqual(expected);
      }),
    );
  });

  test("no changed bit goes unnoticed", () => {
    const bytes = awsFrame({ ":event-type": "x", ":message-type": "event" }, { a: 1 });
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3]! ^= 1 << (bit & 7);
      expect(() => read([changed])).toThrow(/event stream/);
    }
  });

  test("lengths are bounded before anything is kept, and random bytes only ever fail", () => {
    const prelude = (total: number, headers: number) => {
      const bytes = Buffer.alloc(12);
      bytes.writeUInt32BE(total, 0);
      bytes.writeUInt32BE(headers, 4);
      bytes.writeUInt32BE(crc32(bytes.subarray(0, 8)), 8);
      return bytes;
    };
    expect(() => read([prelude(0xffff_ffff, 0)])).toThrow(/at most/);
    expect(() => read([prelude(4, 0)])).toThrow(/at most/);
    expect(() => read([prelude(100, 90)])).toThrow(/within their frame/);
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 12, maxLength: 100 }), (bytes) => {
        expect(() => read([Buffer.from(bytes)])).toThrow(/event stream/);
      }),
    );
  });
});

test("a list of bytes is a queue", () => {
  const step = fc.oneof(fc.uint8Array({ maxLength: 9000 }), fc.nat(5000));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const list = new ByteList();
      let model = Buffer.alloc(0);
      for (const each of steps) {
        if (typeof each === "number") {
          list.drop(each);
          model = model.subarray(each);
        } else {
          list.append(each);
          model = Buffer.concat([model, each]);
        }
        expect(list.length).toBe(model.length);
        expect(list.view().equals(model)).toBe(true);
      }
    }),
  );
});

describe("signatures of AWS", () => {
  const credentials = {
    region: "us-east-1",
    accessKeyId: "AKIDEXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  };
  const now = new Date("2015-08-30T12:36:00Z");

  test("AWS's own example get-vanilla", () => {
    const headers = { host: "example.amazonaws.com", "x-amz-date": "20150830T123600Z" };
    const request = { method: "GET", path: "/", headers, body: new Uint8Array(), service: "service", now };
    expect(signature(credentials, request)).toBe("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  });

  test("the secret is not among the headers, and a session's token is signed", () => {
    const request = {
      host: "h",
      path: `/model/${awsEncode("a:b/c(1)")}/converse`,
      body: Buffer.from("{}"),
      service: "bedrock",
      now,
    };
    const headers = signedHeaders({ ...credentials, sessionToken: "token" }, request);
    expect(request.path).toBe("/model/a%3Ab%2Fc%281%29/converse");
    expect(headers).toMatchObject({ "x-amz-date": "20150830T123600Z", "x-amz-security-token": "token" });
    expect(headers.authorization).toContain("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,");
    expect(JSON.stringify(headers)).not.toContain(credentials.secretAccessKey);
  });
});

describe("rate limits", () => {
  const now = Date.parse("2026-05-01T00:00:00Z");
  test.each([
    [
      "OpenAI's",
      {
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1m0.5s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "12ms",
      },
      { requests: { remaining: 59, resetMs: 60_500 }, tokens: { remaining: 0, resetMs: 12 } },
    ],
    [
      "Anthropic's, by its own clock, the scarcest first",
      {
        date: "Fri, 01 May 2026 01:00:00 GMT",
        "anthropic-ratelimit-requests-remaining": "3",
        "anthropic-ratelimit-requests-reset": "2026-05-01T01:00:30Z",
        "anthropic-ratelimit-input-tokens-remaining": "9000",
        "anthropic-ratelimit-input-tokens-reset": "2026-05-01T01:00:10Z",
        "anthropic-ratelimit-output-tokens-remaining": "100",
        "anthropic-ratelimit-output-tokens-reset": "2026-05-01T01:01:00Z",
        "retry-after": "12",
      },
      {
        requests: { remaining: 3, resetMs: 30_000 },
        tokens: { remaining: 100, resetMs: 60_000 },
        retryAfterMs: 12_000,
      },
    ],
    ["exact milliseconds", { "retry-after-ms": "250", "retry-after": "1" }, { retryAfterMs: 250 }],
    ["a date", { "retry-after": "Fri, 01 May 2026 00:00:05 GMT" }, { retryAfterMs: 5_000 }],
    [
      "a Unix time in milliseconds, as OpenRouter's",
      { "x-ratelimit-remaining": "1", "x-ratelimit-reset": String(now + 4000) },
      { requests: { remaining: 1, resetMs: 4_000 } },
    ],
    [
      "nonsense",
      { "retry-after": "soon", "x-ratelimit-remaining-requests": "many", "x-ratelimit-remaining-tokens": "" },
      {},
    ],
    [
      "a reset in the past, a pause of years",
      {
        "x-ratelimit-remaining-requests": "-4",
        "x-ratelimit-reset-requests": "2020-01-01T00:00:00Z",
        "retry-after": "999999999",
      },
      { requests: { remaining: 0, resetMs: 0 }, retryAfterMs: 86_400_000 },
    ],
  ])("%s", (_, headers, expected) => {
    expect(rateLimitsOf(headers, now)).toEqual(expected);
  });

  test("whatever the headers hold, all times are from 0 to a day", () => {
    const value = fc.oneof(
      fc.string(),
      fc.double().map(String),
      fc.constantFrom("1h2m3s", `${"9".repeat(40)}h`, "1e309"),
    );
    const names = [
      "retry-after",
      "retry-after-ms",
      "x-ratelimit-remaining-requests",
      "x-ratelimit-reset-requests",
      "date",
    ];
    fc.assert(
      fc.property(fc.record(Object.fromEntries(names.map((name) => [name, value]))), (headers) => {
        const { requests, tokens, retryAfterMs = 0 } = rateLimitsOf(headers, now);
        for (const ms of [retryAfterMs, requests?.resetMs ?? 0, tokens?.resetMs ?? 0])
          expect(ms >= 0 && ms <= 86_400_000).toBe(true);
        expect((requests?.remaining ?? 0) >= 0).toBe(true);
      }),
    );
  });

  test("Google's are in the body", () => {
    expect(retryDelayOf(Buffer.from('{"details":[{"retryDelay": "17.5s"}]}'))).toBe(17_500);
    expect(retryDelayOf(Buffer.from("{}"))).toBeUndefined();
  });
});

test("keys are taken out of text, given ones and the providers' own forms", () => {
  const redactor = new Redactor(["my-very-own-secret", "abc", undefined]);
  expect(
    redactor.text(
      "abc my-very-own-secret sk-ant-api03-AbC_dEf*** AIzaSyA1234567890 AKIAIOSFODNN7EXAMPLE Bearer x.y.z task-list",
    ),
  ).toBe("abc (key) (key) (key) (key) (key) task-list");
});
