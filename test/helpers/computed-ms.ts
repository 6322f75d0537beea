/**
 * Milliseconds that this process has computed, on all its threads: work is measured by them where a clock would count
 * the other programs of a busy machine, too.
 */
export function computedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
