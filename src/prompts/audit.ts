/** Audits recorded prompts: each kind of waste alone, and all wastes whose mends keep the words, together. */
import type { PromptRequest } from "./requests.js";
import { type Encode, type TokenTotals, totalsOf } from "./simulate.js";
import { type Change, WASTES } from "./wastes.js";

/** Dollars per million tokens. */
export interface PromptPrices {
  readonly input: number;
  /** Price of tokens that come from the prefix cache. */
  readonly cached: number;
  readonly output: number;
}

export interface PromptFinding {
  readonly name: string;
  readonly changes: Change;
  readonly because: string;
  readonly advice: string;
  readonly numRequests: number;
  /** The requests' saving in tokens; `cached` are the additional tokens from the cache. */
  readonly saved: TokenTotals;
  /** Dollars per month; undefined without prices. */
  readonly dollars: number | undefined;
}

export interface PromptAudit {
  readonly numRequests: number;
  readonly totals: TokenTotals;
  readonly dollars: number | undefined;
  /** Findings with the largest saving first. */
  readonly findings: readonly PromptFinding[];
  /** Totals with all mends that keep the content. */
  readonly mended: {
    readonly requests: readonly PromptRequest[];
    readonly totals: TokenTotals;
    readonly dollars: number | undefined;
  };
}

/** @param monthly factor from the file's requests to a month's */
export function auditPrompts(
  requests: readonly PromptRequest[],
  encode: Encode,
  prices: PromptPrices | undefined,
  monthly: number,
  onWaste: (name: string) => void = () => {},
): PromptAudit {
  const totals = totalsOf(requests, encode);
  const dollarsOf = (tokens: TokenTotals): number | undefined => prices && monthly * costOf(tokens, prices);
  let mended = requests;
  const findings: PromptFinding[] = [];
  for (const { name, changes, advice, find } of WASTES) {
    onWaste(name);
    const found = find(requests, encode);
    if (found === undefined) continue;
    const after = totalsOf(found.requests, encode);
    const saved = {
      prompt: totals.prompt - after.prompt,
      cached: after.cached - totals.cached,
      output: totals.output - after.output,
      reserved: totals.reserved - after.reserved,
    };
    const numRequests = found.requests.filter((request, index) => request !== requests[index]).length;
    const dollars = prices && monthly * (costOf(totals, prices) - costOf(after, prices));
    findings.push({ name, changes, because: found.because, advice, numRequests, saved, dollars });
    if (changes !== "content") mended = find(mended, encode)?.requests ?? mended;
  }
  const after = totalsOf(mended, encode);
  const worth = ({ saved, dollars }: PromptFinding): number => dollars ?? saved.prompt + saved.cached + saved.output;
  return {
    numRequests: requests.length,
    totals,
    dollars: dollarsOf(totals),
    findings: findings.sort((a, b) => worth(b) - worth(a)),
    mended: { requests: mended, totals: after, dollars: dollarsOf(after) },
  };
}

const costOf = ({ prompt, cached, output }: TokenTotals, prices: PromptPrices): number =>
  ((prompt - cached) * prices.input + cached * prices.cached + output * prices.output) / 1e6;
