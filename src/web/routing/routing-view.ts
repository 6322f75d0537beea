/** Texts for routes, cascades and canaries, and the request that a canary's form describes. */

export interface Route {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly rules: readonly {
    readonly when: Readonly<Record<string, unknown>>;
    readonly to: readonly { readonly model: string; readonly share: number }[];
  }[];
  readonly fallback: readonly { readonly error: string; readonly models: readonly string[] }[];
  readonly requests: readonly { readonly model: string; readonly count: number }[];
  readonly fallbacks: readonly { readonly model: string; readonly count: number }[];
}

interface Estimate {
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

export interface Cascade {
  readonly name: string;
  readonly small: string;
  readonly large: string;
  readonly max_loss: number;
  readonly audit_share: number;
  readonly decisions: readonly { readonly decision: string; readonly count: number }[];
  readonly is_open: boolean;
  readonly closed_at?: string;
  readonly num_samples: number;
  readonly loss: Estimate;
  readonly small_loss: Estimate;
}

interface Bounds {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

interface Arm {
  readonly requests: number;
  readonly failed: number;
  readonly ttft_ms: number | null;
  readonly tpot_ms: number | null;
  readonly duration_ms: number | null;
}

export interface Canary {
  readonly model: string;
  readonly name: string;
  readonly state: string;
  readonly because: string;
  readonly started: string;
  readonly args: readonly string[];
  readonly weights: string | null;
  readonly share: number;
  readonly minutes: number;
  readonly seconds_left: number | null;
  readonly canary: Arm;
  readonly others: Arm;
  readonly ratios: Readonly<Record<"ttft_ms" | "tpot_ms" | "duration_ms", Bounds | null>>;
}

export const percent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`;

/** @example conditionText({ prompt_tokens: { min: 4000 }, tools: false }) // "prompt tokens from 4000, tools false" */
export function conditionText(when: Readonly<Record<string, unknown>>): string {
  const texts = Object.entries(when).map(([name, value]) => {
    const words = name.replaceAll("_", " ");
    if (Array.isArray(value)) return `${words} ${value.join(" or ")}`;
    if (typeof value !== "object" || value === null) return `${words} ${value}`;
    const { min, max } = value as { readonly min?: number; readonly max?: number };
    return [words, ...(min === undefined ? [] : [`from ${min}`]), ...(max === undefined ? [] : [`to ${max}`])].join(
      " ",
    );
  });
  return texts.join(", ") || "any other request";
}

/** Each model's count with its share of the total. */
export function countsText(counts: readonly { readonly model: string; readonly count: number }[]): string {
  const sum = counts.reduce((all, { count }) => all + count, 0);
  const texts = counts.map(({ model, count }) => `${model} ${count.toLocaleString("en")} (${percent(count / sum)})`);
  return texts.join(", ") || "–";
}

/** Mean costs of a request to each model. */
interface MeanCost {
  readonly small: number;
  readonly large: number;
}

const countOf = ({ decisions }: Pick<Cascade, "decisions">, ...wanted: readonly string[]): number =>
  decisions.reduce((sum, { decision, count }) => (wanted.includes(decision) ? sum + count : sum), 0);

/** Share of judged requests whose small answer was kept; undefined: none was judged. */
export function keptShare(cascade: Pick<Cascade, "decisions">): number | undefined {
  const judged = countOf(cascade, "kept", "escalated", "audited");
  return judged === 0 ? undefined : countOf(cascade, "kept") / judged;
}

/**
 * Dollars that the large model would have cost beyond what both cost, at the mean cost of each model's requests. Below
 * zero the cascade costs more than it saves.
 */
export function savedBy(cascade: Pick<Cascade, "decisions">, { small, large }: MeanCost): number {
  const [kept, both] = [countOf(cascade, "kept"), countOf(cascade, "escalated", "audited")];
  return kept * (large - small) - both * small;
}

export const isRunning = ({ state }: Pick<Canary, "state">): boolean => state === "starting" || state === "running";

/** @example ratioText({ value: 0.76, low: 0.7, high: 0.83 }) // "0.76 × (0.70 to 0.83)" */
export const ratioText = (ratio: Bounds | null): string =>
  ratio === null ? "–" : `${ratio.value.toFixed(2)} × (${ratio.low.toFixed(2)} to ${ratio.high.toFixed(2)})`;

/** Splits arguments like a shell: at blanks outside quotes. */
export function argumentsOf(text: string): readonly string[] {
  const words = text.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g);
  return [...words].map(([word]) => word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"));
}

interface CanaryWish {
  readonly model: string;
  readonly args: string;
  readonly weights: string;
  readonly minutes: string;
  /** Percent; empty: the same share as one of the other instances. */
  readonly share: string;
}

/** The request's body. @returns a text if something is missing */
export function canaryOf({ model, args, weights, minutes, share }: CanaryWish): Record<string, unknown> | string {
  const list = argumentsOf(args);
  const file = weights.trim();
  if (list.length === 0 && file === "") return "Give flags or weights: a canary without a change shows nothing.";
  return {
    model,
    args: list,
    minutes: Number(minutes),
    ...(file === "" ? {} : { weights: file }),
    ...(share === "" ? {} : { share: Number(share) / 100 }),
  };
}
