import type { FleetConfig } from "../config/schema.js";

/** Remembers what a name stands for as long as the configuration stays the same: it is asked for with every request. */
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
