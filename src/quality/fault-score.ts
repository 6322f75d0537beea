/** Scores an answer by the checks of production traffic, which need no right answer. */
import { type CheckName, judgeSample } from "../gateway/quality/checks/checks.js";
import type { Asked } from "./ask.js";
import type { Score } from "./score.js";

/** @param format the `response_format` of the request */
export function scoreFaults(
  { faults, format }: { readonly faults: readonly CheckName[]; readonly format?: unknown },
  { prompt, end }: Asked,
  text: string,
): Score {
  const verdicts = judgeSample(
    {
      messages: prompt.map(({ role, content }) => ({ role, text: content })),
      isPlain: true,
      format,
      answer: { text, end, calls: [], logprobs: [] },
    },
    faults,
  );
  const found = Object.entries(verdicts).filter(([, { isFailing }]) => isFailing);
  if (found.length === 0) return { score: 1, exact: true };
  return {
    score: 0,
    exact: false,
    note: found.map(([name, { note }]) => (note ? `${name}: ${note}` : name)).join(", "),
  };
}
