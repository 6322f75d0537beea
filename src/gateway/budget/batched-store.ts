/**
 * A store that does all operations of one turn of the event loop at once: a round trip or a commit costs more than an
 * operation.
 */
import type { BudgetUnit } from "../scope.js";
import type { Claims } from "./claims.js";
import type { Operation, Result, Results } from "./operations.js";
import type { BudgetStore, Levels, Recovered, Reservation, ReserveResult, ResizeResult } from "./store.js";

interface Pending {
  readonly operation: Operation;
  readonly resolve: (result: Result) => void;
  readonly reject: (thrown: unknown) => void;
}

/** More operations than this wait for the next turn, so that no turn holds a store for long. */
const MAX_OPERATIONS = 512;

export abstract class BatchedStore implements BudgetStore {
  #pending: Pending[] = [];
  #isScheduled = false;
  #numRunning = 0;

  /** @param maxTurns turns that may be under way at once; meanwhile operations gather */
  constructor(private readonly maxTurns: number) {}

  /**
   * Does the operations in one atomic turn. `take` is called once, as late as possible, so that the turn has all
   * operations up to then.
   * @returns a result for each taken operation
   */
  protected abstract turn(take: () => readonly Operation[]): Promise<readonly Result[]>;

  /** Called after each operation that a caller waits for: all but settlements and charges. */
  protected hurry(): void {}

  abstract close(): Promise<void>;

  reserve(reservation: Reservation): Promise<ReserveResult> {
    return this.#submit({ op: "reserve", reservation });
  }

  resize(id: string, unit: BudgetUnit, want: number, least: number): Promise<ResizeResult> {
    return this.#submit({ op: "resize", id, unit, want, least });
  }

  settle(id: string, money: number, tokens: number): Promise<boolean> {
    return this.#submit({ op: "settle", id, money, tokens });
  }

  async charge(claims: Claims, money: number, tokens: number): Promise<void> {
    await this.#submit({ op: "charge", claims, money, tokens });
  }

  read(claims: Claims): Promise<Levels> {
    return this.#submit({ op: "read", claims });
  }

  tend(): Promise<readonly Recovered[]> {
    return this.#submit({ op: "recover" });
  }

  numOpen(): Promise<number> {
    return this.#submit({ op: "count" });
  }

  #submit<Name extends Operation["op"]>(operation: Operation & { op: Name }): Promise<Results[Name]> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ operation, resolve: resolve as (result: Result) => void, reject });
      this.#schedule();
      if (operation.op !== "settle" && operation.op !== "charge") this.hurry();
    });
  }

  #schedule(): void {
    if (this.#isScheduled || this.#pending.length === 0 || this.#numRunning >= this.maxTurns) return;
    this.#isScheduled = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    let taken: Pending[] = [];
    this.#numRunning++;
    try {
      const results = await this.turn(() => {
        taken = this.#pending.splice(0, MAX_OPERATIONS);
        this.#isScheduled = false;
        this.#schedule();
        return taken.map(({ operation }) => operation);
      });
      for (const [i, { resolve }] of taken.entries()) resolve(results[i]!);
    } catch (thrown) {
      // A turn that failed before it took operations fails the waiting ones, which would otherwise wait for ever.
      if (this.#isScheduled) {
        taken = this.#pending.splice(0);
        this.#isScheduled = false;
      }
      for (const { reject } of taken) reject(thrown);
    } finally {
      this.#numRunning--;
      this.#schedule();
    }
  }
}
