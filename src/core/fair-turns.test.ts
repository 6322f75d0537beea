/**
 * Turns after any history: at one place or two, with tenants that come, leave and return, and items that are taken out.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FairTurns } from "./fair-turns.js";

const [CREDIT, MOST_COST] = [5, 10];

interface Item {
  readonly tenant: string;
  readonly place: number;
  readonly cost: number;
}

/** Places that are never idle while an item waits; all time is virtual. */
class Places {
  readonly turns = new FairTurns<Item>(CREDIT, MOST_COST);
  readonly started: Item[] = [];
  readonly #running: (Item | undefined)[];

  constructor(numPlaces: number) {
    this.#running = Array.from({ length: numPlaces }, () => undefined);
  }

  add(tenant: string, place: number, cost: number): void {
    this.turns.add({ tenant, place, cost }, tenant);
    this.#start(place);
  }

  finish(place: number): void {
    const item = this.#running[place];
    if (item === undefined) return;
    this.#running[place] = undefined;
    this.turns.charge(item.tenant, item.cost);
    this.#start(place);
  }

  #start(place: number): void {
    if (this.#running[place] !== undefined) return;
    const item = this.turns.next((each) => each.place === place);
    this.#running[place] = item;
    if (item !== undefined) this.started.push(item);
  }
}

const tenantsOf = (items: readonly Item[]): string => items.map(({ tenant }) => tenant).join("");

/** One place that gives `numTurns` turns. */
function serve(turns: FairTurns<Item>, numTurns: number): Item[] {
  return Array.from({ length: numTurns }, () => {
    const item = turns.next()!;
    turns.charge(item.tenant, item.cost);
    return item;
  });
}

const addAll = (turns: FairTurns<Item>, tenant: string, count: number): void => {
  for (let i = 0; i < count; i++) turns.add({ tenant, place: 0, cost: 1 }, tenant);
};

describe("a tenant that was served long ago", () => {
  test("while nobody else asked waits for a credit of the others', and not for all of them", () => {
    const turns = new FairTurns<Item>(CREDIT, MOST_COST);
    for (let i = 0; i < 100; i++) turns.charge("a", 1);
    addAll(turns, "b", 100);
    addAll(turns, "a", 1);
    expect(tenantsOf(serve(turns, CREDIT + 1))).toBe("bbbbba");
  });

  test("at once, for longer than a turn may take, waits for no more", () => {
    const turns = new FairTurns<Item>(CREDIT, MOST_COST);
    addAll(turns, "b", 100);
    turns.charge("a", 100);
    addAll(turns, "a", 1);
    expect(tenantsOf(serve(turns, 20)).indexOf("a")).toBe(CREDIT + MOST_COST);
  });

  test("and then not for long starts a credit ahead, whatever the others got meanwhile", () => {
    const turns = new FairTurns<Item>(CREDIT, MOST_COST);
    addAll(turns, "a", 1);
    serve(turns, 1);
    addAll(turns, "b", 200);
    serve(turns, 100);
    addAll(turns, "a", 100);
    expect(tenantsOf(serve(turns, 20))).toMatch(/^a{5,7}(ba|ab){6,7}[ab]?$/);
  });
});

test("equals take turns, in the order of their last ones", () => {
  const turns = new FairTurns<Item>(CREDIT, MOST_COST);
  for (const tenant of ["a", "b", "c"]) addAll(turns, tenant, 3);
  expect(tenantsOf(serve(turns, 9))).toBe("abcabcabc");
  expect(turns.next()).toBeUndefined();
});

test("what is taken out is not waited for", () => {
  const turns = new FairTurns<Item>(CREDIT, MOST_COST);
  addAll(turns, "a", 3);
  addAll(turns, "b", 1);
  const [first, second] = turns.waitingOf("a");
  expect([turns.remove(first!), turns.remove(first!)]).toEqual([true, false]);
  expect(turns.takeWhere((_, tenant) => tenant === "b")).toHaveLength(1);
  expect([turns.size, turns.waitingOf("a").length, turns.next(), turns.size]).toEqual([2, 2, second, 1]);
});

const TENANTS = ["a", "b", "c", "d"];
const tenant = fc.constantFrom(...TENANTS);
const cost = fc.integer({ min: 1, max: MOST_COST });
const eventsAt = (numPlaces: number) => {
  const place = fc.nat(numPlaces - 1);
  const add = fc.record({ kind: fc.constant("add" as const), tenant, place, cost });
  const finish = fc.record({ kind: fc.constant("finish" as const), place });
  const cancel = fc.record({ kind: fc.constant("cancel" as const), tenant });
  return fc.array(
    fc.oneof({ weight: 3, arbitrary: add }, { weight: 3, arbitrary: finish }, { weight: 1, arbitrary: cancel }),
    { maxLength: 80 },
  );
};
type ValueOf<A> = A extends fc.Arbitrary<infer V> ? V : never;
type Events = ValueOf<ReturnType<typeof eventsAt>>;

function happen(places: Places, events: Events): void {
  for (const each of events) {
    if (each.kind === "add") places.add(each.tenant, each.place, each.cost);
    else if (each.kind === "finish") places.finish(each.place);
    else for (const item of places.turns.waitingOf(each.tenant).slice(0, 1)) places.turns.remove(item);
  }
}

/** One tenant has the last place to itself, while some of the others share the first one. */
const alone = fc.record({ loner: tenant, beside: fc.subarray(TENANTS), numRounds: fc.nat(60) });

function keepAlone(places: Places, { loner, beside, numRounds }: ValueOf<typeof alone>, lastPlace: number): void {
  for (let round = 0; round < numRounds; round++) {
    places.add(loner, lastPlace, MOST_COST);
    places.finish(lastPlace);
    for (const other of beside) if (other !== loner) places.add(other, 0, 1);
    places.finish(0);
  }
}

/**
 * @returns by tenant, the cost of turns that began at the first place before the waiting tenant's turn; undefined: that
 * turn did not come
 */
function servedBefore(places: Places, waiting: string, meanwhile: Events, lastPlace: number) {
  const numBefore = places.started.length;
  places.add(waiting, 0, 1);
  const startedHere = () => places.started.slice(numBefore).filter(({ place }) => place === 0);
  const others = meanwhile.filter((each) => each.kind === "finish" || each.tenant !== waiting);
  for (let round = 0; round < 200; round++) {
    const isOver = startedHere().some((item) => item.tenant === waiting);
    if (isOver) break;
    // Some others come and go; the rest always have waiting items.
    happen(places, others.slice(round, round + 1));
    for (const other of TENANTS) {
      if (other !== waiting) places.add(other, round % (lastPlace + 1), 1 + ((7 * round) % MOST_COST));
    }
    places.finish(0);
    if (round % 3 === 0) places.finish(lastPlace);
  }
  const started = startedHere();
  const turn = started.findIndex((item) => item.tenant === waiting);
  if (turn < 0) return undefined;
  const served = new Map(TENANTS.map((each) => [each, 0]));
  for (const item of started.slice(0, turn)) served.set(item.tenant, served.get(item.tenant)! + item.cost);
  return served;
}

test.each([
  1, 2,
])("a tenant waits for a bounded part of each other one's items, whatever came before (places: %i)", (numPlaces) => {
  // A second place may have a turn of either tenant under way, which is charged later.
  const mostServed = CREDIT + MOST_COST + MOST_COST + 2 * (numPlaces - 1) * MOST_COST;
  fc.assert(
    fc.property(eventsAt(numPlaces), alone, eventsAt(numPlaces), tenant, (history, monopoly, meanwhile, waiting) => {
      const places = new Places(numPlaces);
      happen(places, history);
      keepAlone(places, monopoly, numPlaces - 1);
      places.turns.takeWhere((_, each) => each === waiting);
      const served = servedBefore(places, waiting, meanwhile, numPlaces - 1);
      expect(served).toBeDefined();
      expect(Math.max(...served!.values())).toBeLessThanOrEqual(mostServed);
    }),
    { numRuns: 500, seed: 1 },
  );
});
