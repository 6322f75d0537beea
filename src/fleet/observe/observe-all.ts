/** Combines several observers into one. The tracing one comes first, so that the others know the trace. */

import type { ErrorCode } from "../../core/errors.js";
import type { TokenUsage } from "../../gateway/api/usage.js";
import type { Outcome, ProxyObserver, RequestObserver } from "../../gateway/observer.js";

export function observeAll(observers: readonly ProxyObserver[]): ProxyObserver {
  return {
    started(start): RequestObserver {
      let traceparent: string | undefined;
      const started = observers.map((observer) => {
        const request = observer.started(start, traceparent);
        traceparent ??= request.traceparent;
        return request;
      });
      return new Observers(started, traceparent);
    },
    refused: (path, code) => {
      for (const observer of observers) observer.refused(path, code);
    },
  };
}

/** A class, since closures for each event would be allocated for each request. */
class Observers implements RequestObserver {
  readonly used: ((usage: TokenUsage) => void) | undefined;

  constructor(
    private readonly each: readonly RequestObserver[],
    readonly traceparent: string | undefined,
  ) {
    const isUsed = each.some(({ used }) => used !== undefined);
    this.used = isUsed ? (usage) => each.forEach((request) => void request.used?.(usage)) : undefined;
  }

  passed(): void {
    for (const request of this.each) request.passed?.();
  }

  routed(instanceId: string, matchedFraction: number): void {
    for (const request of this.each) request.routed(instanceId, matchedFraction);
  }

  retried(instanceId: string, reason: string): void {
    for (const request of this.each) request.retried(instanceId, reason);
  }

  hedged(instanceId: string): void {
    for (const request of this.each) request.hedged?.(instanceId);
  }

  firstByte(): void {
    for (const request of this.each) request.firstByte();
  }

  ended(outcome: Outcome, status: number, code: ErrorCode | undefined): void {
    for (const request of this.each) request.ended(outcome, status, code);
  }
}
