/** The card of a quantised folder: what was done, with which texts, and what it cost. */
import type { Divergence } from "../bench/engine/divergence.js";
import type { Comparison } from "../quality/compare.js";
import type { MovedInputs } from "./scale-mover.js";

/** What was written, and what it lost. */
export interface Candidate {
  /** A method's name. */
  readonly method: string;
  readonly path: string;
  /** Of the whole file. */
  readonly numBytes: number;
  readonly weightBytes: number;
  /** Of all weights, those that stay wider included. */
  readonly bitsPerWeight: number;
  /** Inputs whose scales were moved into the weights; absent: scales stay. */
  readonly scaled?: MovedInputs | undefined;
  readonly loss?: Divergence | undefined;
  readonly quality?: Comparison | undefined;
}

export interface CardFacts {
  /** Name of the original, as the user gave it. */
  readonly model: string;
  /** Files of texts and of questions. */
  readonly calibration: string | undefined;
  readonly evals: string | undefined;
  readonly layout: string;
  readonly rounding: "gptq" | "nearest";
}

const NAMES = { awq: "AWQ", smoothquant: "SmoothQuant" } as const;

function scaledText({ scaling, numMoved, numInputs }: MovedInputs): string {
  return `${NAMES[scaling]}: moved into the weights for ${numMoved} of ${numInputs} inputs of layers`;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** Markdown with the front matter of Hugging Face's model cards. */
export function cardOf(
  { method, bitsPerWeight, scaled, loss, quality }: Candidate,
  { model, calibration, evals, layout, rounding }: CardFacts,
): string {
  const rows = [
    ["method", `${method}, layout ${layout}`],
    ["rounding", rounding === "gptq" ? "GPTQ's" : "to the nearest"],
    ["scales of inputs", scaled === undefined ? "as in the original" : scaledText(scaled)],
    ["bits a weight", bitsPerWeight.toFixed(2)],
    ["calibrated with", calibration ?? "nothing: every column counted alike"],
    ...(loss === undefined
      ? [["loss", "not measured"]]
      : [
          [
            "perplexity on held-out text",
            `${loss.testedPerplexity.toFixed(3)} (original: ${loss.referencePerplexity.toFixed(3)})`,
          ],
          ["KL divergence", `${loss.meanKl.toFixed(5)} nats, over ${loss.numTokens} tokens`],
          ["same likeliest token", percent(loss.sameTop)],
        ]),
    quality === undefined
      ? ["answers", "not judged"]
      : [
          `answers to ${evals}`,
          `${quality.verdict}: a drop of ${(100 * quality.overall.drop).toFixed(1)} points (${quality.overall.interval.map((share) => (100 * share).toFixed(1)).join(" to ")}) over ${quality.overall.numItems} items`,
        ],
  ];
  return `---
base_model: ${JSON.stringify(model)}
tags: [quantized]
---

# ${model.replace(/[\r\n]/g, " ")}, quantised

| | |
| --- | --- |
${rows.map((cells) => `| ${cells.map((cell) => cell!.replace(/[|\r\n]/g, " ")).join(" | ")} |`).join("\n")}

Written by \`millrace quantize\`.
`;
}
