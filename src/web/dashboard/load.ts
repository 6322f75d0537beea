/** The dashboard's figures, as the server sends them, and what they say in words. A figure is absent where the server does not know it. */

interface Quantiles {
  readonly p50?: number;
  readonly p95?: number;
  readonly p99?: number;
}

/** Something that happened to the server. */
export interface ServerEvent {
  readonly atMs: number;
  readonly kind: string;
  readonly text: string;
}

export interface Load {
  readonly atMs: number;
  readonly tokensInPerS?: number;
  readonly tokensOutPerS?: number;
  readonly requestsPerS?: number;
  readonly refusedPerS?: number;
  readonly running?: number;
  readonly waiting?: number;
  /** Shares, 0 to 1. */
  readonly kvUse?: number;
  readonly prefixHits?: number;
  readonly acceptance?: number;
  /** Share of steps that is not spent in the kernels. */
  readonly hostShare?: number;
  readonly preemptionsPerS?: number;
  readonly savedPerS?: number;
  /** Dollars an hour, of a tenant. */
  readonly costPerH?: number;
  readonly savedCostPerH?: number;
  /** Milliseconds. */
  readonly ttft: Quantiles;
  readonly tpot: Quantiles;
  readonly queue: Quantiles;
  /** What happened since the figures before; absent: nothing. */
  readonly events?: readonly ServerEvent[];
}

interface Binding {
  readonly name: "memory" | "seats" | "prefill" | "decode" | "nothing";
  /** The metric that says so, with its value. */
  readonly evidence: string;
  /** What would help. */
  readonly advice: string;
}

const FULL = 0.95;
const MANY_PROMPT_TOKENS = 8;

/** What holds requests up now, and what would help. */
export function bindingOf({
  kvUse = 0,
  waiting = 0,
  running = 0,
  preemptionsPerS = 0,
  tokensInPerS = 0,
  tokensOutPerS = 0,
}: Load): Binding {
  const share = `${Math.round(100 * kvUse)} %`;
  if (preemptionsPerS > 0 || (kvUse >= FULL && waiting > 0)) {
    return {
      name: "memory",
      evidence:
        preemptionsPerS > 0
          ? `${preemptionsPerS.toFixed(1)} preemptions a second`
          : `kv_cache_usage_perc is ${share}, and ${waiting} wait`,
      advice: "Give the KV cache more memory, keep it in int8, or add an instance.",
    };
  }
  if (waiting > 0) {
    return {
      name: "seats",
      evidence: `num_requests_waiting is ${waiting} with ${share} of the KV memory in use`,
      advice: "Raise max-num-seqs where the time per token allows it, or add an instance.",
    };
  }
  const isBusy = running > 0 || tokensOutPerS > 0;
  if (isBusy && tokensInPerS > MANY_PROMPT_TOKENS * tokensOutPerS) {
    return {
      name: "prefill",
      evidence: `${Math.round(tokensInPerS)} prompt tokens a second against ${Math.round(tokensOutPerS)} of answers`,
      advice: "Put what prompts share first, so that the prefix cache finds it.",
    };
  }
  if (isBusy) {
    return {
      name: "decode",
      evidence: `${Math.round(tokensOutPerS)} tokens of answers a second, none waiting`,
      advice: "Answers are read from memory token by token: quantised weights and drafts make them faster.",
    };
  }
  return { name: "nothing", evidence: "no request is running", advice: "" };
}
