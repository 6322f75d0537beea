/**
 * Prices tokens on the operator's own hardware, from the price of an instance's hour. While an instance works on n
 * attempts, each of them gets 1/n of its time: the shares add up to the instance's busy time. A model's prompt tokens
 * cost the average share per token before the first byte of answers, its output tokens that after it. So all requests
 * together cost the price of the busy time; idle time is charged to none.
 */
import { formatDollars } from "../money.js";
import type { Price } from "../usage/price.js";
import type { AttemptRecord, TokenCounts } from "../usage/record.js";
import { amountsText } from "./price.js";

const MS_PER_HOUR = 3_600_000;
/** A cached token costs its part in attention, about a tenth of computing it. */
const CACHED_SHARE = 0.1;
/** Measurements lose half of their weight in this time. */
const HALF_LIFE_MS = MS_PER_HOUR;
/** Prices change at most this often, so that few versions of them exist. */
const REFRESH_MS = 60_000;
/**
 * Assumed before anything is measured, with the weight of 1.5 s: 0.5 ms a token of a prompt, 10 ms a token of an
 * answer.
 */
const ASSUMED = { promptMs: 500, promptTokens: 1000, outputMs: 1000, outputTokens: 100 };
/** An answer whose first byte came after this share of the time came at once: it does not show the prompt's time. */
const WHOLE_AFTER = 0.9;

/** Time that an instance gives to each of its attempts: it grows by dt/n in a time dt with n attempts. */
interface InstanceClock {
  shareMs: number;
  atMs: number;
  numRunning: number;
}

interface Running {
  readonly instance: InstanceClock;
  readonly startShareMs: number;
  firstShareMs: number | undefined;
}

interface ModelTimes {
  promptMs: number;
  promptTokens: number;
  outputMs: number;
  outputTokens: number;
  refreshedMs: number;
  price: Price | undefined;
  nanoPerHour: bigint;
}

export class HardwareMeter {
  readonly #instances = new Map<string, InstanceClock>();
  readonly #models = new Map<string, ModelTimes>();
  readonly #running = new Map<AttemptRecord, Running>();

  /** @param now milliseconds that only grow */
  constructor(private readonly now: () => number) {}

  began(attempt: AttemptRecord): void {
    const instance = this.#instanceOf(attempt.instance);
    this.#advance(instance);
    instance.numRunning++;
    this.#running.set(attempt, { instance, startShareMs: instance.shareMs, firstShareMs: undefined });
  }

  answering(attempt: AttemptRecord): void {
    const running = this.#running.get(attempt);
    if (running === undefined) return;
    this.#advance(running.instance);
    running.firstShareMs = running.instance.shareMs;
  }

  ended(attempt: AttemptRecord): void {
    const running = this.#running.get(attempt);
    if (running === undefined) return;
    this.#running.delete(attempt);
    const { instance, startShareMs, firstShareMs } = running;
    this.#advance(instance);
    instance.numRunning--;
    // A replaced instance does not come back under its clock; an idle one needs none.
    if (instance.numRunning === 0) this.#instances.delete(attempt.instance);
    const share = instance.shareMs - startShareMs;
    const first = firstShareMs === undefined ? share : firstShareMs - startShareMs;
    this.#learn(this.#timesOf(attempt.model), share, first, attempt.usage);
  }

  /** @param nanoPerHour price of an instance's hour in nano-dollars */
  priceOf(model: string, nanoPerHour: bigint): Price {
    const times = this.#timesOf(model);
    const sinceMs = this.now() - times.refreshedMs;
    if (times.price !== undefined && sinceMs < REFRESH_MS && times.nanoPerHour === nanoPerHour) return times.price;
    const perMillion = (ms: number, tokens: number): bigint =>
      BigInt(Math.round((Number(nanoPerHour) * 1e6 * ms) / (tokens * MS_PER_HOUR)));
    const fresh = perMillion(times.promptMs, times.promptTokens);
    const output = perMillion(times.outputMs, times.outputTokens);
    const cacheRead = BigInt(Math.round(Number(fresh) * CACHED_SHARE));
    const amounts = { fresh, cacheRead, cacheWrite: fresh, output };
    const version = `hardware at $${formatDollars(nanoPerHour)}/h: ${amountsText(amounts)}`;
    const fade = 0.5 ** (sinceMs / HALF_LIFE_MS);
    // Less weight than the assumption's would let one request decide the price.
    const weight = Math.max(fade, Math.min(1, 1500 / (times.promptMs + times.outputMs)));
    times.promptMs *= weight;
    times.promptTokens *= weight;
    times.outputMs *= weight;
    times.outputTokens *= weight;
    Object.assign(times, { refreshedMs: this.now(), nanoPerHour });
    times.price = { version, ...amounts };
    return times.price;
  }

  #learn(times: ModelTimes, share: number, first: number, usage: TokenCounts | undefined): void {
    const prompt = usage === undefined ? 0 : usage.fresh + usage.cacheWrite + CACHED_SHARE * usage.cacheRead;
    const output = usage?.output ?? 0;
    times.promptTokens += prompt;
    times.outputTokens += output;
    if (prompt > 0 && output > 0 && first < WHOLE_AFTER * share) {
      times.promptMs += first;
      times.outputMs += share - first;
      return;
    }
    // The time is divided in the proportion of the model's other tokens. An attempt without tokens adds to the time per
    // token.
    const { promptMs, promptTokens, outputMs, outputTokens } = times;
    const isCounted = prompt + output > 0;
    const promptPart = isCounted ? (promptMs / promptTokens) * prompt : promptMs;
    const outputPart = isCounted ? (outputMs / outputTokens) * output : outputMs;
    const promptShare = promptPart / (promptPart + outputPart);
    times.promptMs += share * promptShare;
    times.outputMs += share * (1 - promptShare);
  }

  #timesOf(model: string): ModelTimes {
    const known = this.#models.get(model);
    if (known !== undefined) return known;
    const times: ModelTimes = { ...ASSUMED, refreshedMs: this.now(), price: undefined, nanoPerHour: 0n };
    this.#models.set(model, times);
    return times;
  }

  #instanceOf(id: string): InstanceClock {
    const known = this.#instances.get(id);
    if (known !== undefined) return known;
    const clock = { shareMs: 0, atMs: this.now(), numRunning: 0 };
    this.#instances.set(id, clock);
    return clock;
  }

  #advance(clock: InstanceClock): void {
    const now = this.now();
    if (clock.numRunning > 0) clock.shareMs += (now - clock.atMs) / clock.numRunning;
    clock.atMs = now;
  }
}
