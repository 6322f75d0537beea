/** The memory of this process as a metric, under the name in Prometheus' own clients. */
import { Gauge, type Registry } from "prom-client";

export function registerProcessMemory(registry: Registry): void {
  const gauge: Gauge = new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory of this process",
    registers: [registry],
    collect: () => gauge.set(process.memoryUsage.rss()),
  });
}
