/** Random operations on a store and on a plain model of one, which must agree. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Claims, claimsOf, type LimitedScope } from "../../src/gateway/budget/claims.js";
import type { Operation, Result } from "../../src/gateway/budget/operations.js";
import type { Amounts, BudgetStore } from "../../src/gateway/budget/store.js";
import { applyTurn, type Held, type Meter, NEW_METER, type TurnState } from "../../src/gateway/budget/turn.js";
import { BUDGET_UNITS, type BudgetUnit } from "../../src/gateway/scope.js";

export interface StoreBench extends AsyncDisposable {
  /** Another gateway on the same data, with a lease of 30 s. */
  open(now: () => number): Promise<BudgetStore>;
}

export const NOON = Date.UTC(2026, 10, 25, 12);
export const HOUR = 3_600_000;

export function budget(window: string, hard = 100, unit: BudgetUnit = "money") {
  return { unit, window: window as "day", hard: BigInt(hard) };
}

/** What the meters and reservations of a store must be, in plain maps. */
class ModelState implements TurnState {
  readonly meters = new Map<string, Meter>();
  readonly open = new Map<string, Held>();

  meter(key: string): Meter {
    return this.meters.get(key) ?? NEW_METER;
  }
  set(key: string, meter: Meter): void {
    this.meters.set(key, meter);
  }
  reservation(id: string): Held | undefined {
    return this.open.get(id);
  }
  put(held: Held): void {
    this.open.set(held.id, held);
  }
  remove(id: string): void {
    this.open.delete(id);
  }
  numOpen(): number {
    return this.open.size;
  }
  abandoned(): readonly Held[] {
    return [];
  }
}

export function randomTurns(makeBench: () => Promise<StoreBench>): void {
  const scopes: readonly LimitedScope[] = [
    {
      kind: "org",
      id: "o",
      limits: {
        budgets: [budget("day", 500), budget("month", 900), budget("day", 400, "tokens")],
        tokensPerMinute: 300,
      },
    },
    {
      kind: "key",
      id: "a",
      limits: { budgets: [budget("hour", 200)], requestsPerMinute: 20, concurrentRequests: 4 },
    },
    {
      kind: "key",
      id: "b",
      limits: { budgets: [budget("day", 300), budget("total", 350, "tokens")], concurrentRequests: 3 },
    },
  ];
  const claims = fc.constantFrom(claimsOf(scopes.slice(0, 2)), claimsOf([scopes[0]!, scopes[2]!]));
  const id = fc.integer({ min: 0, max: 9 }).map(String);
  const unit = fc.constantFrom(...BUDGET_UNITS);
  const amounts = fc.record({ money: fc.nat(150), tokens: fc.nat(90) });
  const operation: fc.Arbitrary<Operation> = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(id, claims, amounts, amounts, fc.nat(80)).map(reserveOf) },
    { weight: 2, arbitrary: fc.tuple(id, unit, fc.nat(200), fc.nat(100)).map(resizeOf) },
    // Money and tokens are given as shares of the amounts that are reserved then.
    {
      weight: 3,
      arbitrary: fc.record({ op: fc.constant("settle" as const), id, money: fc.nat(100), tokens: fc.nat(100) }),
    },
    { weight: 1, arbitrary: claims.map((each) => ({ op: "read" as const, claims: each })) },
  );
  const turn = fc.record({
    operations: fc.array(operation, { maxLength: 8 }),
    passes: fc.integer({ min: -HOUR, max: 2 * HOUR }),
  });

  test("give the same answers as the model, and spend no more than the budgets", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(turn, { maxLength: 15 }), async (turns) => {
        await using fresh = await makeBench();
        let at = NOON;
        const tested = await fresh.open(() => at);
        const model = new ModelState();
        try {
          for (const { operations, passes } of turns) {
            at += passes;
            const affordable = operations.map((each, i) => within(each, operations.slice(0, i), model));
            const expected = applyTurn(model, affordable, "model", at);
            expect(await Promise.all(affordable.map((each) => submit(tested, each)))).toEqual(expected);
            for (const { key, hard } of claimsOf(scopes).budgets) {
              const { used, held } = model.meter(key);
              expect(used + held).toBeLessThanOrEqual(hard);
              expect(Math.min(used, held)).toBeGreaterThanOrEqual(0);
            }
          }
        } finally {
          await tested.close();
        }
      }),
      { numRuns: 15 },
    );
  });
}

const reserveOf = ([id, claims, more, least, tokens]: readonly [
  string,
  Claims,
  Amounts,
  Amounts,
  number,
]): Operation => {
  const want = { money: least.money + more.money, tokens: least.tokens + more.tokens };
  return { op: "reserve", reservation: { id, claims, want, least, tokens } };
};
const resizeOf = ([id, unit, want, least]: readonly [string, BudgetUnit, number, number]): Operation => ({
  op: "resize",
  id,
  unit,
  want: Math.max(want, least),
  least,
});

/**
 * A settlement of at most what is reserved, since larger ones may overspend: of nothing if an earlier operation of the
 * turn changes that reservation, or makes another of its name.
 */
function within(operation: Operation, earlier: readonly Operation[], model: ModelState): Operation {
  if (operation.op !== "settle") return operation;
  const isChanged = earlier.some((each) => idOf(each) === operation.id);
  const held = isChanged ? undefined : model.reservation(operation.id);
  const share = (reserved = 0, percent: number) => Math.floor((reserved * percent) / 100);
  const { money, tokens } = operation;
  return { ...operation, money: share(held?.money, money), tokens: share(held?.budgetTokens, tokens) };
}

function idOf(operation: Operation): string | undefined {
  if (operation.op === "reserve") return operation.reservation.id;
  return operation.op === "settle" || operation.op === "resize" ? operation.id : undefined;
}

function submit(store: BudgetStore, operation: Operation): Promise<Result> {
  switch (operation.op) {
    case "reserve":
      return store.reserve(operation.reservation);
    case "resize":
      return store.resize(operation.id, operation.unit, operation.want, operation.least);
    case "settle":
      return store.settle(operation.id, operation.money, operation.tokens);
    case "read":
      return store.read(operation.claims);
    default:
      throw new Error(`expected an operation of the random turns, got ${operation.op}`);
  }
}
