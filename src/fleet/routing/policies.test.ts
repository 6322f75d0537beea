import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { POLICIES, type Question, ROUTING_POLICIES, type RoutingCandidate } from "./policies.js";

const candidate = (fields: Partial<RoutingCandidate> & { id?: string } = {}): RoutingCandidate => ({
  id: "a",
  matchedFraction: 0,
  load: 0,
  numInFlight: 0,
  ...fields,
});
const ask = (candidates: readonly RoutingCandidate[], fields: Partial<Question> = {}): Question => ({
  candidates,
  turn: 0,
  beta: 1,
  session: undefined,
  ...fields,
});
const ids = (count: number) => Array.from({ length: count }, (_, i) => `instance-${i}`);

describe("prefix", () => {
  const pick = POLICIES.prefix;

  test("chooses the instance with the cached prompt, even if it is slightly busier", () => {
    expect(pick(ask([candidate(), candidate({ matchedFraction: 0.9, load: 0.1 })]))).toBe(1);
  });

  test("avoids an instance that exceeds another's load by the mean load", () => {
    const busy = candidate({ matchedFraction: 1, load: 2.1 });
    expect(pick(ask([candidate({ load: 0.1 }), busy, candidate({ load: 0.8 })]))).toBe(0);
  });

  test("compares loads with a mean of at least one half", () => {
    const known = (load: number) => pick(ask([candidate(), candidate({ matchedFraction: 0.5, load })]));
    expect([known(0.24), known(0.26)]).toEqual([1, 0]);
  });

  test("β = 0 ignores load", () => {
    const busy = candidate({ matchedFraction: 0.1, load: 9 });
    expect(pick(ask([candidate(), busy], { beta: 0 }))).toBe(1);
  });
});

test("ties are broken round-robin for every policy", () => {
  const equal = ids(4).map((id) => candidate({ id }));
  for (const name of ["prefix", "least-load", "round-robin"] as const) {
    const picks = Array.from({ length: 8 }, (_, turn) => POLICIES[name](ask(equal, { turn })));
    expect(picks, name).toEqual([0, 1, 2, 3, 0, 1, 2, 3]);
  }
});

test("least-load chooses the least busy instance", () => {
  const candidates = [candidate({ load: 2 }), candidate({ load: 0.5 }), candidate({ load: 1 })];
  for (let turn = 0; turn < 3; turn++) expect(POLICIES["least-load"](ask(candidates, { turn }))).toBe(1);
});

describe("session", () => {
  const pick = POLICIES.session;
  const idle = (count: number) => ids(count).map((id) => candidate({ id }));

  test("stays with its instance, independent of turns and of the order of the list", () => {
    const candidates = idle(5);
    const home = candidates[pick(ask(candidates, { session: "s" }))]!.id;
    const reversed = [...candidates].reverse();
    expect(reversed[pick(ask(reversed, { session: "s", turn: 3 }))]!.id).toBe(home);
  });

  test("removing an instance moves only its own sessions, evenly to the others", () => {
    const [all, fewer] = [idle(5), idle(4)];
    const counts = new Map<string, number>();
    for (let i = 0; i < 2000; i++) {
      const session = `session ${i}`;
      const before = all[pick(ask(all, { session }))]!.id;
      const after = fewer[pick(ask(fewer, { session }))]!.id;
      if (before !== "instance-4") expect(after).toBe(before);
      counts.set(before, (counts.get(before) ?? 0) + 1);
    }
    for (const count of counts.values()) expect(Math.abs(count - 400)).toBeLessThan(80);
  });

  test("moves on from an instance that has more than 1.25 times its share", () => {
    const candidates = idle(4);
    const home = pick(ask(candidates, { session: "s" }));
    const busy = candidates.map((each, i) => ({ ...each, numInFlight: i === home ? 10 : 5 }));
    expect(pick(ask(busy, { session: "s" }))).not.toBe(home);
    const fair = candidates.map((each) => ({ ...each, numInFlight: 5 }));
    expect(pick(ask(fair, { session: "s" }))).toBe(home);
  });

  test("stays while its instance has at most 1.25 times its share of all sequences, including the session's own", () => {
    const candidates = idle(2);
    const home = pick(ask(candidates, { session: "s" }));
    const atHome = (numInFlight: number) => {
      const busy = candidates.map((each, i) => ({ ...each, numInFlight: i === home ? numInFlight : 39 - numInFlight }));
      return pick(ask(busy, { session: "s" })) === home;
    };
    expect([atHome(24), atHome(25)]).toEqual([true, false]);
  });

  test("a request without a session is routed by load", () => {
    expect(pick(ask([candidate({ load: 1 }), candidate({ load: 0 })]))).toBe(1);
  });
});

test("every policy returns one of the candidates", () => {
  const arbitrary = fc.record({
    id: fc.string(),
    matchedFraction: fc.double({ min: 0, max: 1, noNaN: true }),
    load: fc.double({ min: 0, max: 1e6, noNaN: true }),
    numInFlight: fc.nat(1000),
  });
  const session = fc.option(fc.string(), { nil: undefined });
  fc.assert(
    fc.property(fc.array(arbitrary, { minLength: 1, maxLength: 9 }), fc.nat(), session, (candidates, turn, session) => {
      for (const name of ROUTING_POLICIES) {
        expect(candidates[POLICIES[name]({ candidates, turn, beta: 1, session })]).toBeDefined();
      }
    }),
  );
});
