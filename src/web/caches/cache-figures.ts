/** Texts for both caches' figures, and the query of a purge. */

/** A model's requests to the exact cache since the gateway's start. */
export interface ModelCounts {
  readonly model: string;
  readonly hit: number;
  readonly joined: number;
  readonly miss: number;
  readonly stale: number;
  readonly bypass: number;
  readonly saved_prompt_tokens: number;
  readonly saved_output_tokens: number;
}

export interface SemanticStatus {
  readonly model: string;
  readonly state: "shadow" | "serve" | "disabled";
  readonly mode: "shadow" | "serve";
  readonly min_judged: number;
  readonly max_error: number;
  readonly entries: number;
  readonly bytes: number;
  readonly counts: {
    readonly lookups: number;
    readonly candidates: number;
    readonly agreed: number;
    readonly served: number;
    readonly audited: number;
    readonly judged_same: number;
    readonly judged_different: number;
    readonly unjudged: number;
    readonly reported: number;
    readonly failures: number;
    readonly objections: Readonly<Record<string, number>>;
  };
  readonly trust: {
    readonly judged: number;
    readonly wrong: number;
    readonly upper_bound: number;
    readonly audited: number;
    readonly audited_wrong: number;
    readonly is_earned: boolean;
  };
}

/** Share of hits among looked-up requests; undefined: there were no look-ups. */
export function hitRate(all: readonly ModelCounts[]): number | undefined {
  let [hits, lookups] = [0, 0];
  for (const { hit, joined, miss, stale } of all) {
    hits += hit + joined;
    lookups += hit + joined + miss + stale;
  }
  return lookups === 0 ? undefined : hits / lookups;
}

export const percent = (share: number | undefined): string =>
  share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;

/** The cache's current behaviour, and the condition that would change it. */
export function semanticState({ state, mode, min_judged, max_error, trust }: SemanticStatus): string {
  const { judged, upper_bound: bound, is_earned } = trust;
  if (state === "disabled") {
    return "stopped: audits found more wrong answers than allowed; a reset begins anew in shadow";
  }
  if (state === "serve") return "serves hits";
  if (is_earned) return mode === "serve" ? "serves hits" : "could serve: mode: serve in the gateway's file lets it";
  if (judged < min_judged) return `judges only: ${min_judged - judged} more judged hits are needed`;
  return `judges only: up to ${percent(bound)} may be wrong, ${percent(max_error)} are allowed`;
}

/** The most frequent objections first. */
export function objectionsText(objections: Readonly<Record<string, number>>, atMost = 4): string {
  const sorted = Object.entries(objections).sort(([, a], [, b]) => b - a);
  const shown = sorted.slice(0, atMost).map(([name, count]) => `${name} ${count.toLocaleString("en")}`);
  return [...shown, ...(sorted.length > atMost ? ["…"] : [])].join(", ") || "–";
}

interface PurgeFields {
  readonly model: string;
  readonly tenant: string;
  readonly prefix: string;
}

/**
 * @returns the purge's query, and a text for the answers that it removes. With all fields empty it removes everything
 */
export function purgeOf({ model, tenant, prefix }: PurgeFields): { readonly query: string; readonly words: string } {
  const query = new URLSearchParams(Object.entries({ model, tenant, prefix }).filter(([, value]) => value !== ""));
  if (query.size === 0) return { query: "all=true", words: "all kept answers" };
  const parts = [
    ...(model === "" ? [] : [`of ${model}`]),
    ...(tenant === "" ? [] : [`for the tenant ${tenant}`]),
    ...(prefix === "" ? [] : [`with a tag that begins with ${prefix}`]),
  ];
  return { query: String(query), words: `the kept answers ${parts.join(" ")}` };
}
