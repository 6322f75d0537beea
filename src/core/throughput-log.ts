/** Writes what engines do into the log every ten seconds, as long as they do anything. */
import type { Logger } from "pino";
import { describeThroughput, type LoadCounts, THROUGHPUT_EVERY_MS, ThroughputMeter } from "./throughput.js";

/** Whose counts they are, for the log, and the counts. */
export interface LoadSource {
  readonly about: Readonly<Record<string, string>>;
  readonly counts: LoadCounts;
}

/** @param sources asked each time; one engine of a fleet is told from another by what `about` says */
export function logThroughput(logger: Logger, sources: () => readonly LoadSource[]): NodeJS.Timeout {
  const meters = new Map<string, ThroughputMeter>();
  const nameOf = ({ about }: LoadSource): string => Object.values(about).join("\n");
  const look = (source: LoadSource): void => {
    const nowMs = performance.now();
    const throughput = meters.get(nameOf(source))?.since(nowMs, source.counts);
    if (throughput !== undefined) logger.info({ ...source.about, throughput }, describeThroughput(throughput));
    // What was done before an engine was first seen is of no interval.
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
