/** The supervisor's instances under every name that clients may send; a model's aliases name the same instances. */
import { isCanaryName } from "../../gateway/canary/canary-name.js";
import type { Upstream, UpstreamPool } from "./upstream.js";

export class NamedPool implements UpstreamPool {
  /** The names that clients may send at present. */
  #names: readonly string[] = [];
  /** Names are never removed: requests with an old name may still wait or run when a reload removes it. */
  readonly #modelOf = new Map<string, string>();
  readonly #namesOf = new Map<string, Set<string>>();

  constructor(private readonly inner: UpstreamPool) {}

  /** @param names all names of each model, the model's own name first */
  configure(names: ReadonlyMap<string, readonly string[]>): void {
    this.#names = [...names.values()].flat().filter((name) => !isCanaryName(name));
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

  /** Resolves a name to the model it stands for, or last stood for; undefined: a name that was never in use. */
  modelOf(name: string): string | undefined {
    return this.#modelOf.get(name);
  }

  /** Every name of a model, including earlier names that no other model has taken since. */
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
