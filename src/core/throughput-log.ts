/** Logs the throughput of busy engines every ten seconds. */
import type { Logger } from "pino";
import { describeThroughput, type LoadCounts, THROUGHPUT_EVERY_MS, ThroughputMeter } from "./throughput.js";

/** One engine's counters, with the log fields that name the engine. */
export interface LoadSource {
  readonly about: Readonly<Record<string, string>>;
  readonly counts: LoadCounts;
}

/** @param sources called at each interval; the values of `about` identify an engine of a fleet */
export function logThroughput(logger: Logger, sources: () => readonly LoadSource[]): NodeJS.Timeout {
  const meters = new Map<string, ThroughputMeter>();
  const nameOf = ({ about }: LoadSource): string => Object.values(about).join("\n");
  const look = (source: LoadSource): void => {
    const nowMs = performance.now();
    const throughput = meters.get(nameOf(source))?.since(nowMs, source.counts);
    if (throughput !== undefined) logger.info({ ...source.about, throughput }, describeThroughput(throughput));
    // Work before an engine's first appearance belongs to no interval.
    if (!meters.has(nameOf(source))) meters.set(nameOf(source), new ThroughputMeter(nowMs, source.counts));
  };
  const tick = (): void => {
    const all = sources();
    const names = new Set(all.map(nameOf));
    for (const name of meters.keys()) if (!names.has(name)) meters.delete(name);
    all.forEach(look);
  };
  sources().forEach(look);
  return setInterval(tick, THROUGHPUT_EVERY_MS).unref();
}
