/** Counts the ends of requests to each virtual model since the gateway started. */

export class RouteTally {
  readonly #counts = new Map<string, Map<string, number>>();

  /** @param name of the virtual model @param end a model of its configuration, or a decision of ours */
  add(name: string, end: string): void {
    const ends = this.#counts.get(name) ?? new Map<string, number>();
    this.#counts.set(name, ends);
    ends.set(end, (ends.get(end) ?? 0) + 1);
  }

  /** The ends of a virtual model, the most frequent first. */
  of(name: string): readonly { readonly end: string; readonly count: number }[] {
    const ends = [...(this.#counts.get(name) ?? [])].map(([end, count]) => ({ end, count }));
    return ends.sort((a, b) => b.count - a.count);
  }
}
