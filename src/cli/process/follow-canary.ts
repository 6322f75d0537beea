/** Starts a canary of a running gateway and waits for its end. A command that ends early stops its canary. */
import { setTimeout as sleep } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { parseDurationMs } from "../../core/quantities.js";
import type { Stage } from "../../core/stages.js";
import { formatTable, type Json } from "../output/format.js";
import type { AdminClient } from "./admin-client.js";

const LOOK_MS = 1000;
const MS_PER_MINUTE = 60_000;
const LEAST_MS = 3000;
const MOST_MS = 7 * 24 * 60 * MS_PER_MINUTE;

/** Minutes of `--for`. Throws invalid_option. */
export function canaryMinutes(text: string): number {
  const forMs = parseDurationMs(text);
  if (forMs !== undefined && forMs >= LEAST_MS && forMs <= MOST_MS) return forMs / MS_PER_MINUTE;
  throw optionError("--for", "a duration from 3s to 7d, such as 30m", text);
}

/**
 * @param wish the body of `POST /admin/canaries`, with `model`
 * @param signal stops the canary, and the wait with its reason
 * @returns the report of the ended canary
 */
export async function followCanary(client: AdminClient, wish: Json, stage: Stage, signal: AbortSignal): Promise<Json> {
  let report = await client.ask("POST", "/canaries", wish);
  const path = canaryPath(String(report.model));
  try {
    while (report.state === "starting" || report.state === "running") {
      await sleep(LOOK_MS, undefined, { signal });
      const next = await client.ask("GET", path);
      if (next.started !== report.started) throw isAnothers(String(wish.model));
      report = next;
      stage.update(progressOf(report));
    }
  } catch (thrown) {
    await stopOwn(client, path, report.started);
    throw thrown;
  }
  if (report.state === "passed") stage.done("passed");
  else stage.note(String(report.state));
  return report;
}

const isAnothers = (model: string): MillraceError =>
  new MillraceError("not_found", `expected the canary of ${model} that was started here, got a later one`, {
    hint: "somebody stopped it and started another: millrace canary list",
  });

/** A command that ends early stops only its own canary, not a later one. */
async function stopOwn(client: AdminClient, path: string, started: Json[string]): Promise<void> {
  const now = await client.ask("GET", path).catch(() => undefined);
  if (now?.started === started) await client.ask("DELETE", path).catch(() => {});
}

export const canaryPath = (model: string): string => `/canaries/${encodeURIComponent(model)}`;

export const armOf = (report: Json, side: "canary" | "others") =>
  report[side] as Readonly<Record<string, number | null>>;

function progressOf(report: Json): string {
  if (report.state !== "running") return String(report.state);
  const counts = `${armOf(report, "canary").requests} requests of the canary, ${armOf(report, "others").requests} of the others`;
  return `${counts}, ${report.seconds_left} s left`;
}

const TIMES = [
  ["duration_ms", "request, ms"],
  ["ttft_ms", "first token, ms"],
  ["tpot_ms", "per token, ms"],
] as const;

export function canaryText(report: Json): string {
  const [canary, others] = [armOf(report, "canary"), armOf(report, "others")];
  const ratios = report.ratios as Readonly<Record<string, Readonly<Record<"value" | "low" | "high", number>> | null>>;
  const fixed = (value: number | null | undefined, digits: number): string => value?.toFixed(digits) ?? "–";
  const rows = TIMES.map(([name, label]) => {
    const ratio = ratios[name];
    const interval = ratio ? `${fixed(ratio.value, 2)} × (${fixed(ratio.low, 2)} to ${fixed(ratio.high, 2)})` : "–";
    return [label, fixed(canary[name], 1), fixed(others[name], 1), interval];
  });
  const table = formatTable([
    ["", "canary", "others", "canary ÷ others"],
    ["requests", String(canary.requests), String(others.requests), ""],
    ["failed", String(canary.failed), String(others.failed), ""],
    ...rows,
  ]);
  return `${table}\n${report.model}: ${report.state}: ${report.because}`;
}
