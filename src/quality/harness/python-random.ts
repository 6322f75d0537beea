/**
 * Python's `random.Random(seed).sample`, so that few-shot examples equal those of lm-evaluation-harness: the Mersenne
 * Twister (Matsumoto and Nishimura 1998, seeded by an array of one number) and CPython's two ways to draw without
 * replacement.
 */
const SIZE = 624;
const SHIFT = 397;

export class PythonRandom {
  readonly #state = new Uint32Array(SIZE);
  #next = SIZE;

  /** @param seed in [0, 2^32) */
  constructor(seed: number) {
    const state = this.#state;
    state[0] = 19_650_218;
    for (let i = 1; i < SIZE; i++) state[i] = Math.imul(1_812_433_253, mixed(state[i - 1]!)) + i;
    let i = 1;
    const advance = (): void => {
      if (++i < SIZE) return;
      state[0] = state[SIZE - 1]!;
      i = 1;
    };
    for (let round = 0; round < SIZE; round++, advance()) {
      state[i] = (state[i]! ^ Math.imul(1_664_525, mixed(state[i - 1]!))) + seed;
    }
    for (let round = 1; round < SIZE; round++, advance()) {
      state[i] = (state[i]! ^ Math.imul(1_566_083_941, mixed(state[i - 1]!))) - i;
    }
    state[0] = 0x8000_0000;
  }

  /** `count` distinct items in random order. @param items at least `count` */
  sample<T>(items: readonly T[], count: number): T[] {
    const poolSize = 21 + (count > 5 ? 4 ** Math.ceil(Math.log(count * 3) / Math.log(4)) : 0);
    if (items.length > poolSize) {
      const chosen = new Set<number>();
      while (chosen.size < count) chosen.add(this.#below(items.length));
      return Array.from(chosen, (index) => items[index]!);
    }
    const pool = [...items];
    return Array.from({ length: count }, (_, drawn) => {
      const index = this.#below(items.length - drawn);
      const item = pool[index]!;
      pool[index] = pool[items.length - drawn - 1]!;
      return item;
    });
  }

  #below(limit: number): number {
    const numBits = 32 - Math.clz32(limit);
    for (;;) {
      const drawn = this.#draw() >>> (32 - numBits);
      if (drawn < limit) return drawn;
    }
  }

  #draw(): number {
    if (this.#next === SIZE) this.#twist();
    let bits = this.#state[this.#next++]!;
    bits ^= bits >>> 11;
    bits ^= (bits << 7) & 0x9d2c_5680;
    bits ^= (bits << 15) & 0xefc6_0000;
    return (bits ^ (bits >>> 18)) >>> 0;
  }

  #twist(): void {
    const state = this.#state;
    for (let i = 0; i < SIZE; i++) {
      const bits = (state[i]! & 0x8000_0000) | (state[(i + 1) % SIZE]! & 0x7fff_ffff);
      state[i] = state[(i + SHIFT) % SIZE]! ^ (bits >>> 1) ^ (bits & 1 ? 0x9908_b0df : 0);
    }
    this.#next = 0;
  }
}

const mixed = (bits: number): number => bits ^ (bits >>> 30);
