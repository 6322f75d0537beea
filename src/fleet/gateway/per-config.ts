import type { FleetConfig } from "../config/schema.js";

/** Caches the result for each name until the configuration changes, since every request needs it. */
export function perConfig<T>(
  config: () => FleetConfig,
  find: (name: string, config: FleetConfig) => T,
): (name: string) => T {
  let known = new Map<string, T>();
  let of: FleetConfig | undefined;
  return (name) => {
    const now = config();
    if (of !== now) {
      of = now;
      known = new Map();
    }
    if (!known.has(name)) known.set(name, find(name, now));
    return known.get(name) as T;
  };
}
