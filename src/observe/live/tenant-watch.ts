/** The figures of a gateway's tenants: their histories, and the present ones. Only operators may see them. */
import { EVERY_MS, type History } from "./history.js";
import { type Load, loadBetween, partOf, type Reading, readingOf } from "./load.js";
import { SeriesStore, TENANTS } from "./series-store.js";

/** Counts of tenants' requests. */
export interface TenantSource {
  /** By tenant key. @param wanted keys; undefined: all tenants */
  readings(atMs: number, wanted?: ReadonlySet<string>): ReadonlyMap<string, Reading>;
}

/** Present figures cover this much time: a request counts at its end, and most tenants have few of them. */
const NOW_MS = 60_000;

interface Taken {
  readonly atMs: number;
  /** By tenant key. */
  readonly readings: ReadonlyMap<string, Reading>;
}

/** A tenant's figures before its first request; without them, the tenant's history would lack that request. */
function nothingAt(atMs: number, reading: Reading): Reading {
  const counters = Object.fromEntries(Object.keys(reading.counters).map((name) => [name, 0]));
  return { ...reading, atMs, counters, firstToken: new Map(), perToken: new Map() };
}

export class TenantWatch {
  /** Samples of the last minute, oldest first. */
  #taken: readonly Taken[] = [];

  constructor(
    private readonly source: TenantSource,
    private readonly series = new SeriesStore(undefined, undefined, TENANTS),
  ) {}

  /** Call it as often as the history needs a reading. */
  take(atMs: number): void {
    const readings = this.source.readings(atMs);
    const recent = this.#taken.filter((each) => each.atMs >= atMs - NOW_MS - EVERY_MS / 2 && each.atMs < atMs);
    const last = recent.at(-1);
    if (last !== undefined) {
      const added = [...readings].filter(([key]) => !last.readings.has(key));
      const zeros = new Map(added.map(([key, reading]) => [key, nothingAt(last.atMs, reading)]));
      if (zeros.size > 0) this.series.add(zeros);
      recent.splice(-1, 1, { atMs: last.atMs, readings: new Map([...last.readings, ...zeros]) });
    }
    if (readings.size > 0) this.series.add(readings);
    this.#taken = [...recent, { atMs, readings }];
  }

  /** @param wanted keys, including tenants without present figures */
  readings(atMs: number, wanted: readonly string[]): readonly (readonly [key: string, reading: Reading])[] {
    const found = wanted.length === 0 ? undefined : this.source.readings(atMs, new Set(wanted));
    return wanted.map((key) => [key, found?.get(key) ?? readingOf([], atMs)] as const);
  }

  find(key: string): History | undefined {
    return this.series.find(key);
  }

  /** Keys of the tenants with present figures. */
  current(): ReadonlySet<string> {
    return new Set(this.#taken.at(-1)?.readings.keys());
  }

  /** Keys of the tenants with a history. */
  keys(): readonly string[] {
    return this.series.keys();
  }

  /** Over the last minute, the most expensive first. */
  now(): readonly (Load & { readonly name: string })[] {
    const loads = [...(this.#taken.at(-1)?.readings ?? [])].flatMap(([key, last]) => {
      const first = this.#taken.find(({ readings }) => readings.has(key))!.readings.get(key)!;
      return first === last ? [] : [{ name: partOf(key)!.name, ...loadBetween(first, last) }];
    });
    const rank = ({ costPerH = 0, tokensOutPerS = 0 }: Load): readonly number[] => [costPerH, tokensOutPerS];
    return loads.sort((a, b) => rank(b)[0]! - rank(a)[0]! || rank(b)[1]! - rank(a)[1]! || a.name.localeCompare(b.name));
  }

  close(): void {
    this.series.close();
  }
}
