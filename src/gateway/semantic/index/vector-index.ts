/**
 * Finds unit vectors of one length by their cosine. The scan is cut into pieces of less than a millisecond, between
 * which other requests go on.
 */

export interface Match {
  readonly id: string;
  /** Cosine. */
  readonly similarity: number;
}

interface Place {
  readonly namespace: string;
  readonly vector: Float32Array;
}

/** Products per piece of a scan: about a third of a millisecond. */
const PRODUCTS_PER_PIECE = 200_000;

export class VectorIndex {
  /** Places of vectors, in the order of arrival. */
  readonly #places = new Map<string, Place>();
  readonly #namespaces = new Map<string, Map<string, Float32Array>>();

  get size(): number {
    return this.#places.size;
  }

  has(namespace: string): boolean {
    return this.#namespaces.has(namespace);
  }

  /** @param vector a unit vector of any length but 0, kept without a copy */
  add(id: string, namespace: string, vector: Float32Array): void {
    this.delete(id);
    this.#places.set(id, { namespace, vector });
    const members = this.#namespaces.get(namespace);
    if (members === undefined) this.#namespaces.set(namespace, new Map([[id, vector]]));
    else members.set(id, vector);
  }

  /** @returns undefined if the id is unknown, or its vector has another length */
  similarity(id: string, query: Float32Array): number | undefined {
    const vector = this.#places.get(id)?.vector;
    return vector?.length === query.length ? dot(vector, query) : undefined;
  }

  delete(id: string): boolean {
    const place = this.#places.get(id);
    if (place === undefined) return false;
    this.#places.delete(id);
    const members = this.#namespaces.get(place.namespace)!;
    members.delete(id);
    if (members.size === 0) this.#namespaces.delete(place.namespace);
    return true;
  }

  /** The id that arrived first; undefined: none. */
  oldest(): string | undefined {
    return this.#places.keys().next().value;
  }

  /**
   * The `limit` nearest vectors of the namespace, the nearest first. Vectors of another length come from another model,
   * and do not count.
   */
  async nearest(namespace: string, query: Float32Array, limit: number, atLeast: number): Promise<readonly Match[]> {
    const members = this.#namespaces.get(namespace);
    if (members === undefined) return [];
    const best: Match[] = [];
    const perPiece = Math.max(1, Math.floor(PRODUCTS_PER_PIECE / query.length));
    let inPiece = 0;
    // A map's iterator tolerates changes: it skips members deleted meanwhile, and sees added ones.
    for (const [id, vector] of members) {
      if (vector.length === query.length) consider(best, { id, similarity: dot(vector, query) }, limit, atLeast);
      if (++inPiece < perPiece) continue;
      inPiece = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
    return best.filter(({ id }) => this.#places.has(id));
  }
}

function consider(best: Match[], match: Match, limit: number, atLeast: number): void {
  if (!(match.similarity >= atLeast)) return;
  if (best.length === limit && match.similarity <= best[limit - 1]!.similarity) return;
  const at = best.findIndex(({ similarity }) => similarity < match.similarity);
  best.splice(at < 0 ? best.length : at, 0, match);
  if (best.length > limit) best.pop();
}

/** Four sums, since in a single sum each addition would wait for the last. */
export function dot(a: Float32Array, b: Float32Array): number {
  const { length } = a;
  let [s, t, u, v] = [0, 0, 0, 0];
  let i = 0;
  for (; i + 3 < length; i += 4) {
    s += a[i]! * b[i]!;
    t += a[i + 1]! * b[i + 1]!;
    u += a[i + 2]! * b[i + 2]!;
    v += a[i + 3]! * b[i + 3]!;
  }
  for (; i < length; i++) s += a[i]! * b[i]!;
  return s + t + u + v;
}

/** @returns undefined for a vector without a direction: empty, zero, or with NaN or an infinite number */
export function unitVector(values: ArrayLike<number>): Float32Array | undefined {
  const vector = Float32Array.from(values);
  const norm = Math.sqrt(dot(vector, vector));
  if (!(norm > 0) || !Number.isFinite(norm)) return undefined;
  for (let i = 0; i < vector.length; i++) vector[i]! /= norm;
  return vector;
}
