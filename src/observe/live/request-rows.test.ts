import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RequestRing, type RequestRow, readQuery } from "./request-rows.js";

type Facts = Pick<RequestRow, "outcome" | "status" | "total_ms">;

const note = (id: string, facts: Partial<Facts> = {}) => ({
  id,
  row: (): RequestRow => ({ id, at_ms: 0, path: "/", model: "m", tenant: "", outcome: "answered", ...facts }),
});

const query = (text = "") => readQuery(new URLSearchParams(text));

describe("the query", () => {
  it("has defaults, and takes several ids", () => {
    expect(query()).toEqual({ limit: 100, failed: false, id: [] });
    expect(query("limit=2&failed=true&slow_ms=1.5&id=a&id=b")).toEqual({
      limit: 2,
      failed: true,
      slow_ms: 1.5,
      id: ["a", "b"],
    });
  });

  it.each([
    ["limit=0", "limit"],
    ["limit=201", "limit"],
    ["limit=", "limit"],
    ["limit=1.5", "limit"],
    ["slow_ms=-1", "slow_ms"],
    ["slow_ms=fast", "slow_ms"],
    ["failed=1", "failed"],
    [Array.from({ length: 101 }, (_, i) => `id=${i}`).join("&"), "id"],
  ])("is refused: %s", (text, param) => {
    expect(() => query(text)).toThrow(expect.objectContaining({ code: "invalid_parameter", param }));
  });
});

describe("the ring", () => {
  it("holds the last requests, the newest first", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.nat(40), fc.integer({ min: 1, max: 20 }), (size, count, limit) => {
        const ring = new RequestRing(size);
        for (let i = 0; i < count; i++) ring.keep(note(String(i)));
        const expected = Array.from({ length: count }, (_, i) => String(count - 1 - i)).slice(0, Math.min(size, limit));
        expect(ring.find(query(`limit=${limit}`)).map(({ row }) => row.id)).toEqual(expected);
      }),
    );
  });

  it("finds failed ones, slow ones, and those with an id", () => {
    const ring = new RequestRing();
    for (const each of [
      note("fast", { total_ms: 1 }),
      note("slow", { total_ms: 900 }),
      note("refused", { status: 400 }),
      note("broken", { outcome: "broken", status: 200 }),
      note("left", { outcome: "cancelled", status: 499, total_ms: 2000 }),
      note("running", { outcome: "running" }),
    ]) {
      ring.keep(each);
    }
    const ids = (text: string) => ring.find(query(text)).map(({ row }) => row.id);
    expect(ids("failed=true")).toEqual(["broken", "refused"]);
    expect(ids("slow_ms=900")).toEqual(["left", "slow"]);
    expect(ids("id=slow&id=fast&id=absent")).toEqual(["slow", "fast"]);
    expect(ring.find(query(), ({ id }) => id === "slow")).toHaveLength(1);
  });
});
