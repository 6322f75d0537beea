/** The proxy's settings, read from the current configuration at each access, so that a reload needs no new proxy. */
import type { FleetConfig } from "./config/schema.js";
import type { ProxyLimits, ProxyTimeouts } from "./proxy/options.js";
import type { RoutingOptions } from "./routing/router.js";

export function routingOf({ routing }: FleetConfig): RoutingOptions {
  const { policy, loadWeight, seatFactor, sessionHeader, hedgeAfter } = routing;
  return { policy, beta: loadWeight, seatFactor, sessionHeader, hedgeAfterMs: hedgeAfter };
}

export function proxyLimits(config: () => FleetConfig): ProxyLimits {
  return {
    get maxBodyBytes() {
      return config().limits.maxBodyBytes;
    },
    get maxWaiting() {
      return config().limits.maxWaitingRequests;
    },
    get maxAttempts() {
      return config().limits.maxAttempts;
    },
    get defaultOutputTokens() {
      return config().limits.defaultOutputTokens;
    },
    get bodyTimeoutMs() {
      return config().timeouts.body;
    },
    get maxWaitMs() {
      return config().timeouts.wait;
    },
  };
}

export function proxyTimeouts(config: () => FleetConfig): ProxyTimeouts {
  return {
    get connectMs() {
      return config().timeouts.connect;
    },
    get firstByteMs() {
      return config().timeouts.firstToken;
    },
    get idleMs() {
      return config().timeouts.idle;
    },
    get stalledClientMs() {
      return config().timeouts.stalledClient;
    },
    get drainMs() {
      return config().timeouts.drain;
    },
  };
}
