/** Combines several observers into one. */
import type { ProxyObserver, RequestObserver } from "../../gateway/observer.js";

export function observeAll(observers: readonly ProxyObserver[]): ProxyObserver {
  return {
    started(start): RequestObserver {
      const each = observers.map((observer) => observer.started(start));
      const usedBy = each.filter(({ used }) => used !== undefined);
      return {
        traceparent: each.map(({ traceparent }) => traceparent).find((header) => header !== undefined),
        passed: () => each.forEach((request) => void request.passed?.()),
        routed: (...values) => each.forEach((request) => void request.routed(...values)),
        retried: (...values) => each.forEach((request) => void request.retried(...values)),
        hedged: (instanceId) => each.forEach((request) => void request.hedged?.(instanceId)),
        used: usedBy.length === 0 ? undefined : (usage) => usedBy.forEach((request) => void request.used?.(usage)),
        firstByte: () => each.forEach((request) => void request.firstByte()),
        ended: (...values) => each.forEach((request) => void request.ended(...values)),
      };
    },
    refused: (path, code) => {
      for (const observer of observers) observer.refused(path, code);
    },
  };
}
