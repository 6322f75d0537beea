/**
 * The lines of all batches for one model: takes turns between tenants, and keeps as many lines under way as the model
 * has seats to spare.
 */
import type { Cancellation } from "../cancellation.js";
import { type ModelLoad, Pace } from "./pace.js";
import type { LineAgain, LineEnd } from "./run-line.js";

/** A batch, as the lane of one model sees it. */
export interface LineSource {
  readonly tenant: string;
  /** Takes the batch's next line for the model; undefined: none now. @param nowMs of the lane's clock */
  next(nowMs: number): SourceLine | undefined;
}

export interface SourceLine {
  readonly numBytes: number;
  /** Never rejects. */
  run(cancellation: Cancellation): Promise<LineEnd>;
}

interface LaneOptions {
  readonly load: () => ModelLoad;
  /** Upper bound of the lines under way, even if the model has more free seats. */
  readonly mostLines: () => number;
  readonly newCancellation: () => Cancellation;
  readonly now: () => number;
}

/** Bound of the bytes of running lines, which are held in memory. A single line may be larger. */
const MAX_BYTES_UNDER_WAY = 64 * 1024 * 1024;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 30_000;

export class Lane {
  /** Each tenant's batches in order of arrival; the first tenant is next. */
  readonly #sources = new Map<string, LineSource[]>();
  /** Running lines, in the order of their starts. */
  readonly #running = new Map<SourceLine, Cancellation>();
  readonly #pace = new Pace();
  #numBytes = 0;
  #pausedUntilMs = 0;
  #pauseMs = FIRST_PAUSE_MS;

  constructor(private readonly options: LaneOptions) {}

  get numRunning(): number {
    return this.#running.size;
  }

  get isIdle(): boolean {
    return this.#sources.size === 0 && this.#running.size === 0;
  }

  /** Now, on the lane's clock. */
  nowMs(): number {
    return this.options.now();
  }

  add(source: LineSource): void {
    this.#sources.set(source.tenant, [...(this.#sources.get(source.tenant) ?? []), source]);
  }

  remove(source: LineSource): void {
    const left = (this.#sources.get(source.tenant) ?? []).filter((each) => each !== source);
    if (left.length > 0) this.#sources.set(source.tenant, left);
    else this.#sources.delete(source.tenant);
  }

  /**
   * Starts one line, or stops some. Called at short intervals while there are lines: each takes the gateway a
   * millisecond, in which clients wait.
   */
  pump(): void {
    const nowMs = this.options.now();
    const { most, toStop } = this.#pace.advise(this.options.load(), this.numRunning, nowMs);
    this.#stopYoungest(toStop);
    if (nowMs < this.#pausedUntilMs) return;
    const bound = Math.min(most, this.options.mostLines());
    if (this.numRunning >= bound || this.#numBytes >= MAX_BYTES_UNDER_WAY) return;
    const line = this.#next(nowMs);
    if (line !== undefined) void this.#run(line);
  }

  #next(nowMs: number): SourceLine | undefined {
    for (const [tenant, sources] of [...this.#sources]) {
      for (const source of sources) {
        const line = source.next(nowMs);
        if (line === undefined) continue;
        // The tenant goes to the end of the queue.
        this.#sources.delete(tenant);
        this.#sources.set(tenant, sources);
        return line;
      }
    }
    return undefined;
  }

  async #run(line: SourceLine): Promise<void> {
    const cancellation = this.options.newCancellation();
    this.#running.set(line, cancellation);
    this.#numBytes += line.numBytes;
    const end = await line.run(cancellation);
    this.#running.delete(line);
    this.#numBytes -= line.numBytes;
    if (end.kind === "again" && end.scope === "model") this.#pause(end);
    else if (end.kind === "done") this.#pauseMs = FIRST_PAUSE_MS;
  }

  /**
   * Pauses the lane: the cause that stopped one line would stop the next too. Lines that already ran when the pause
   * began do not extend it.
   */
  #pause({ afterMs }: LineAgain): void {
    const nowMs = this.options.now();
    if (nowMs < this.#pausedUntilMs) return;
    this.#pausedUntilMs = nowMs + (afterMs ?? this.#pauseMs);
    this.#pauseMs = Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs);
  }

  /** The youngest lines have done the least work. */
  #stopYoungest(count: number): void {
    if (count <= 0) return;
    for (const cancellation of [...this.#running.values()].slice(-count)) cancellation.cancel();
  }
}
