/** The supervisor's instances under every name that clients may use: a model's aliases are names of the same instances. */
import type { Upstream, UpstreamPool } from "./upstream.js";

export class NamedPool implements UpstreamPool {
  #namesOf: ReadonlyMap<string, readonly string[]> = new Map();
  #modelOf: ReadonlyMap<string, string> = new Map();
  #names: readonly string[] = [];

  constructor(private readonly inner: UpstreamPool) {}

  /** @param names of each model, its own first */
  configure(names: ReadonlyMap<string, readonly string[]>): void {
    this.#namesOf = names;
    this.#modelOf = new Map([...names].flatMap(([model, all]) => all.map((name) => [name, model] as const)));
    this.#names = [...this.#modelOf.keys()];
  }

  /** What a name stands for; undefined: nothing. */
  modelOf(name: string): string | undefined {
    return this.#modelOf.get(name);
  }

  namesOf(model: string): readonly string[] {
    return this.#namesOf.get(model) ?? [];
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

  reportFailure(id: string): void {
    this.inner.reportFailure(id);
  }
}
