/** The table of `millrace quantize`. */
import type { Quantised } from "../../compress/quantise.js";
import { formatBytes } from "../../core/quantities.js";
import { formatTable } from "./format.js";

/** With fewer tokens, a perplexity below the original's is chance. */
const FEW_TOKENS = 2000;

export function quantisedText({ candidates, chosen, original }: Quantised): string {
  const header = [
    "method",
    "size",
    "of the original",
    "bits a weight",
    "perplexity (before)",
    "KL divergence",
    "same token",
    "answers",
  ];
  const rows = candidates.map(({ method, numBytes, weightBytes, bitsPerWeight, loss, quality }) => [
    method,
    formatBytes(numBytes),
    `${((100 * weightBytes) / original.weightBytes).toFixed(0)} %`,
    bitsPerWeight.toFixed(2),
    loss === undefined ? "–" : `${loss.testedPerplexity.toFixed(3)} (${loss.referencePerplexity.toFixed(3)})`,
    loss === undefined ? "–" : loss.meanKl.toFixed(5),
    loss === undefined ? "–" : `${(100 * loss.sameTop).toFixed(1)} %`,
    quality === undefined ? "not judged" : quality.verdict,
  ]);
  const end =
    chosen === undefined
      ? "none passed; they are kept aside with their figures, under names with .failed, or .undecided where more questions would tell"
      : `written: ${chosen.path}; to serve it: millrace serve --model ${chosen.path}`;
  const numTokens = candidates[0]?.loss?.numTokens ?? FEW_TOKENS;
  const note = numTokens < FEW_TOKENS ? `\nthe loss is a rough figure: it is of ${numTokens} held-out tokens only` : "";
  return `${formatTable([header, ...rows])}${note}\n${end}`;
}
