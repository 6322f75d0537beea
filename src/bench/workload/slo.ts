/** Service-level objectives: presets, custom limits, and whether a request met them. */
import { MillraceError } from "../../core/errors.js";
import type { Slo } from "../results/schema.js";

/** The presets of guidellm's documentation. */
const SLO_PRESETS: readonly Slo[] = [
  { name: "chat", ttftMs: 200, tpotMs: 50 },
  { name: "rag", ttftMs: 300, tpotMs: 100 },
  { name: "code", ttftMs: 500, tpotMs: 150 },
];

/** @example parseSlo("chat") or parseSlo("ttft=200ms,tpot=50,e2e=5s"): numbers without a unit are milliseconds */
export function parseSlo(text: string): Slo {
  const preset = SLO_PRESETS.find((each) => each.name === text);
  if (preset !== undefined) return preset;
  const limits = text.split(",").map((part) => /^(ttft|tpot|e2e)=(\d+(?:\.\d+)?)(ms|s)?$/.exec(part.trim()));
  if (limits.some((match) => match === null)) {
    const names = SLO_PRESETS.map((each) => each.name).join(", ");
    const message = `expected --slo to be ${names} or limits such as ttft=200,tpot=50 (ms, or s where written), got ${JSON.stringify(text)}`;
    throw new MillraceError("invalid_option", message);
  }
  return {
    name: text,
    ...Object.fromEntries(
      limits.map((match) => [`${match![1]}Ms`, Number(match![2]) * (match![3] === "s" ? 1000 : 1)]),
    ),
  };
}

/** Whether all limits are met. Missing times are ignored, because a single token has no TPOT. */
export function meets(
  slo: Slo,
  times: { readonly ttftMs: number; readonly tpotMs: number | undefined; readonly e2eMs: number },
): boolean {
  const within = (value: number | undefined, limit: number | undefined) =>
    value === undefined || limit === undefined || value <= limit;
  return within(times.ttftMs, slo.ttftMs) && within(times.tpotMs, slo.tpotMs) && within(times.e2eMs, slo.e2eMs);
}
