/** The supervisor's instances under every name that clients may use: a model's aliases are names of the same instances. */
import type { Upstream, UpstreamPool } from "./upstream.js";

export class NamedPool implements UpstreamPool {
  /** What clients may ask for now. */
  #names: readonly string[] = [];
  /** Names are never forgotten: requests that came under one may still wait or run when a reload takes it away. */
  readonly #modelOf = new Map<string, string>();
  readonly #namesOf = new Map<string, Set<string>>();

  constructor(private readonly inner: UpstreamPool) {}

  /** @param names of each model, its own first */
  configure(names: ReadonlyMap<string, readonly string[]>): void {
    this.#names = [...names.values()].flat();
    for (const [model, all] of names) {
      const known = this.#namesOf.get(model) ?? new Set();
      this.#namesOf.set(model, known);
      for (const name of all) {
        const before = this.#modelOf.get(name) ?? model;
        if (before !== model) this.#namesOf.get(before)?.delete(name);
        known.add(name);
        this.#modelOf.set(name, model);
      }
    }
  }

  /** What a name stands for, or stood for last; undefined: nothing ever. */
  modelOf(name: string): string | undefined {
    return this.#modelOf.get(name);
  }

  /** Every name a model has, or had and no other one has got. */
  namesOf(model: string): readonly string[] {
    return [...(this.#namesOf.get(model) ?? [])];
  }

  models(): readonly string[] {
    return this.#names;
  }

  upstreams(name: string): readonly Upstream[] {
    const model = this.#modelOf.get(name);
    if (model === undefined) return [];
    const upstreams = this.inner.upstreams(model);
    return model === name ? upstreams : upstreams.map((upstream) => ({ ...upstream, model: name }));
  }

  onChange(listener: (upstream: Upstream) => void): () => void {
    return this.inner.onChange((upstream) => {
      for (const name of this.namesOf(upstream.model)) {
        listener(name === upstream.model ? upstream : { ...upstream, model: name });
      }
    });
  }

  reportFailure(id: string): Promise<void> {
    return this.inner.reportFailure(id);
  }
}
