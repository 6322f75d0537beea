/** The clocks of the engine's steps: what a step takes is counted, and teaches the cost model and the pace of prompts. */
import type { StepCost } from "./step/step-cost.js";
import type { StepLayout } from "./step-layout.js";
import type { StepPace } from "./step-pace.js";

export class StepMeter {
  numSteps = 0;
  /** Wall time of the kernels, and of whole steps from layout to outputs. */
  kernelMs = 0;
  stepMs = 0;
  /** The previous step had prompts, or the engine was idle: the caches hold other data than the next step needs. */
  #isCold = true;
  /** When the previous step returned its outputs; undefined after an idle time or a step that computed nothing. */
  #returnedMs: number | undefined;
  /** Milliseconds between the previous step's return and this step. */
  #postingMs = 0;
  #startMs = 0;

  constructor(
    private readonly cost: StepCost | undefined,
    private readonly pace: StepPace | undefined,
  ) {}

  /** A request comes to an engine that had none. */
  wake(): void {
    this.#isCold = true;
    this.#returnedMs = undefined;
  }

  /** A step begins: charges the time spent posting the previous step's outputs to it. */
  enter(): void {
    this.#postingMs = this.#returnedMs === undefined ? 0 : performance.now() - this.#returnedMs;
    this.#returnedMs = undefined;
  }

  /** There is something to compute. @returns the time */
  start(): number {
    this.#startMs = performance.now();
    return this.#startMs;
  }

  async kernels(run: () => Promise<void>): Promise<void> {
    const startMs = performance.now();
    await run();
    this.kernelMs += performance.now() - startMs;
  }

  /** The step's results are taken in. The drafters' own work comes later: it is no part of what rows cost. */
  learn({ numDecodingRows, numPromptRows }: StepLayout): void {
    const ms = this.#postingMs + performance.now() - this.#startMs;
    if (numPromptRows === 0 && !this.#isCold) this.cost?.observe(numDecodingRows, ms);
    if (numPromptRows > 0 && numDecodingRows > 0) this.pace?.observe(numDecodingRows, numPromptRows, ms);
    this.#isCold = numPromptRows > 0;
  }

  end(): void {
    this.numSteps++;
    this.stepMs += performance.now() - this.#startMs;
  }

  /** The outputs go out now. */
  leave(): void {
    this.#returnedMs = performance.now();
  }
}
