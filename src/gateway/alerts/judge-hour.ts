/** Judges one hour of a series against the hours before it, for each metric of alerts. Pure. */
import type { Hour } from "./hours.js";
import { levelAlarm } from "./level-alarm.js";
import { type ShareRules, shareAlarm } from "./share-alarm.js";

const METRICS = [
  "spend",
  "tokens_per_request",
  "error_share",
  "refusal_share",
  "retry_share",
  "hit_share",
  "truncated_share",
] as const;
export type Metric = (typeof METRICS)[number];

export interface AlertRules {
  /** Dollars above the usual. */
  readonly minCost: number;
  readonly minRequests: number;
}

export interface Finding {
  readonly metric: Metric;
  readonly value: number;
  readonly expected: number;
}

const allRequests = ({ requests }: Hour): number => requests;

const SHARES: Readonly<Partial<Record<Metric, Omit<ShareRules<Hour>, "minRequests">>>> = {
  error_share: { direction: "rises", allOf: allRequests, someOf: ({ errors }) => errors },
  refusal_share: { direction: "rises", allOf: allRequests, someOf: ({ refusals }) => refusals },
  retry_share: { direction: "rises", allOf: ({ attempts }) => attempts, someOf: ({ retries }) => retries },
  hit_share: { direction: "falls", allOf: allRequests, someOf: ({ hits }) => hits },
  truncated_share: { direction: "rises", allOf: ({ attempts }) => attempts, someOf: ({ truncated }) => truncated },
};

/** @param hours the last one is judged; it must be over */
export function judgeHour(hours: readonly Hour[], rules: AlertRules): Finding[] {
  const findings = [judgeSpend(hours, rules), judgeTokens(hours, rules)];
  for (const metric of METRICS) {
    const share = SHARES[metric];
    if (share === undefined) continue;
    const changed = shareAlarm(hours, { ...share, minRequests: rules.minRequests });
    findings.push(changed && { metric, value: changed.share, expected: changed.expected });
  }
  return findings.filter((finding) => finding !== undefined);
}

/** Also judges an hour that is not over: its cost so far is a lower bound. */
export function judgeSpend(hours: readonly Hour[], { minCost }: AlertRules): Finding | undefined {
  const last = hours.at(-1);
  if (last === undefined || last.cost < minCost) return undefined;
  const history = hours.slice(0, -1).map(({ cost }) => cost);
  const unusual = levelAlarm(history, last.cost, { floor: minCost / 10 });
  if (unusual === undefined || unusual.value - unusual.expected < minCost) return undefined;
  return { metric: "spend", ...unusual };
}

function judgeTokens(hours: readonly Hour[], { minCost, minRequests }: AlertRules): Finding | undefined {
  const perRequest = hours.map(({ tokens, attempts, retries }) => {
    const numAnswered = attempts - retries;
    return numAnswered < minRequests ? undefined : tokens / numAnswered;
  });
  const value = perRequest.at(-1);
  if (value === undefined) return undefined;
  const unusual = levelAlarm(perRequest.slice(0, -1), value, { floor: 1 });
  if (unusual === undefined) return undefined;
  const { cost } = hours.at(-1)!;
  // Without prices, the tokens alone decide.
  const isCheap = cost > 0 && cost * (1 - unusual.expected / unusual.value) < minCost;
  return isCheap ? undefined : { metric: "tokens_per_request", ...unusual };
}
