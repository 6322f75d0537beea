/** Service-level objectives in the form of flags and files. */
import { MillraceError } from "./errors.js";
import { optionError } from "./option-error.js";

export interface Slo {
  /** The name as written. */
  readonly name: string;
  readonly ttftMs?: number | undefined;
  readonly tpotMs?: number | undefined;
  readonly e2eMs?: number | undefined;
}

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

/** Only targets of the time to the first token and per token, above 0. */
export function parseLatencyTargets(text: string): Slo {
  const slo = parseSlo(text);
  if (slo.e2eMs !== undefined) throw optionError("--slo", "of ttft and tpot alone", text);
  if (slo.ttftMs === 0 || slo.tpotMs === 0) throw optionError("--slo", "above 0", text);
  return slo;
}
