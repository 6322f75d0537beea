/** A bounded map that drops the value set longest ago. */

/** Number of compiled grammars that a grammar thread keeps; grammar-lanes.ts keeps their keys. */
export const MAX_CACHED_GRAMMARS = 64;

export class RecentMap<V> {
  /** In order of setting, oldest first. */
  readonly #values = new Map<string, V>();

  constructor(private readonly maxSize: number) {}

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  /** @returns the value dropped for this one */
  set(key: string, value: V): V | undefined {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size <= this.maxSize) return undefined;
    const [oldest, forgotten] = this.#values.entries().next().value!;
    this.#values.delete(oldest);
    return forgotten;
  }

  clear(): void {
    this.#values.clear();
  }
}
