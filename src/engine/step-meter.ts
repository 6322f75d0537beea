/** The clocks of the engine's steps. They count, and feed the cost model and the pace of prompts. */
import type { BackgroundPace } from "./background-pace.js";
import type { StepCost } from "./step/step-cost.js";
import type { StepLayout } from "./step-layout.js";
import type { StepPace } from "./step-pace.js";

export class StepMeter {
  numSteps = 0;
  /** Wall time of the kernels, and of whole steps from layout to outputs, since start. */
  kernelMs = 0;
  stepMs = 0;
  /** Each step's time counts by its share of rows that are prompt tokens. */
  promptMs = 0;
  #promptShare = 0;
  /**
   * After prompts or idle time the CPU's caches hold other data than decoding needs: such a step teaches nothing about
   * decoding.
   */
  #isCold = true;
  /** Time at which the previous step returned its outputs; undefined after idle time or a step without rows. */
  #returnedMs: number | undefined;
  /** Milliseconds between the previous step's return and this step. */
  #postingMs = 0;
  #startMs = 0;

  constructor(
    private readonly cost: StepCost | undefined,
    private readonly pace: StepPace | undefined,
    private readonly background: BackgroundPace,
  ) {}

  /** The first request arrives at an idle engine. */
  wake(): void {
    this.#isCold = true;
    this.#returnedMs = undefined;
  }

  /** A step begins. It is charged with the time spent posting the outputs of the previous one. */
  enter(): void {
    this.#postingMs = this.#returnedMs === undefined ? 0 : performance.now() - this.#returnedMs;
    this.#returnedMs = undefined;
  }

  /** The step has rows to compute. @returns the time */
  start(): number {
    this.#startMs = performance.now();
    return this.#startMs;
  }

  async kernels(run: () => Promise<void>): Promise<void> {
    const startMs = performance.now();
    await run();
    this.kernelMs += performance.now() - startMs;
  }

  /** The results are collected. Call before the drafters' own work, which is no part of the cost of rows. */
  learn({ numDecodingRows, numPromptRows }: Pick<StepLayout, "numDecodingRows" | "numPromptRows">): void {
    this.#promptShare = numPromptRows / (numDecodingRows + numPromptRows);
    const ms = this.#postingMs + performance.now() - this.#startMs;
    if (numPromptRows === 0 && !this.#isCold) this.cost?.observe(numDecodingRows, ms);
    this.background.observe(numDecodingRows + numPromptRows, ms);
    if (numPromptRows > 0 && numDecodingRows > 0) this.pace?.observe(numDecodingRows, numPromptRows, ms);
    this.#isCold = numPromptRows > 0;
  }

  end(): void {
    this.numSteps++;
    const ms = performance.now() - this.#startMs;
    this.stepMs += ms;
    this.promptMs += this.#promptShare * ms;
  }

  /** The outputs are about to be posted. */
  leave(): void {
    this.#returnedMs = performance.now();
  }
}
