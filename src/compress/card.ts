/** The card of a quantised model: its method, data, quality gate and losses. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Divergence } from "../bench/engine/divergence.js";
import { packageVersion } from "../core/package-root.js";
import type { Comparison } from "../quality/compare.js";
import type { MovedInputs } from "./scale-mover.js";

/** A written copy, and its measured losses. */
export interface Candidate {
  /** A method's name. */
  readonly method: string;
  readonly path: string;
  /** Size of the whole file. */
  readonly numBytes: number;
  readonly weightBytes: number;
  /** Mean over all weights, including unquantised ones. */
  readonly bitsPerWeight: number;
  /** Inputs whose scales moved into the weights; absent: scales stay. */
  readonly scaled?: MovedInputs | undefined;
  readonly loss?: Divergence | undefined;
  readonly quality?: Comparison | undefined;
}

/** A file that the user gave. */
export interface DataFile {
  /** The name without its folder, which is private. */
  readonly name: string;
  /** SHA-256 of the file's bytes, in hexadecimal digits. */
  readonly sha256: string;
}

export interface CardFacts {
  /** Name of the original, as the user wrote it. */
  readonly model: string;
  /** Texts, with the number of used tokens; or an importance matrix, whose number of tokens is unknown. */
  readonly calibration: (DataFile & { readonly numTokens: number | undefined }) | undefined;
  /** Questions of the gate. */
  readonly evals: DataFile | undefined;
  /** GGUF, or a folder's layout. */
  readonly layout: string;
  readonly rounding: "gptq" | "nearest";
  /** Start date of the run. @example "2026-11-28" */
  readonly date: string;
}

export function dataFile(path: string): DataFile {
  return { name: basename(path), sha256: createHash("sha256").update(readFileSync(path)).digest("hex") };
}

const NAMES = { awq: "AWQ", smoothquant: "SmoothQuant" } as const;

function scaledText({ scaling, numMoved, numInputs }: MovedInputs): string {
  return `${NAMES[scaling]}: moved into the weights for ${numMoved} of ${numInputs} inputs of layers`;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const points = (share: number): string => (100 * share).toFixed(1);
const fileText = ({ name, sha256 }: DataFile): string => `${name} (SHA-256 ${sha256})`;

function calibrationText(calibration: CardFacts["calibration"]): string {
  if (calibration === undefined) return "nothing: every column counted alike";
  const { numTokens } = calibration;
  return `${fileText(calibration)}, ${numTokens === undefined ? "an importance matrix" : `${numTokens} tokens`}`;
}

function gateRows(quality: Comparison | undefined, evals: DataFile | undefined): readonly (readonly string[])[] {
  if (quality === undefined) return [["gate", "none: answers were not judged"]];
  const { drop, interval, before, after, numItems } = quality.overall;
  return [
    [
      "gate",
      `a drop of less than ${points(quality.maxDrop)} points with 95 % confidence${evals === undefined ? "" : `, on ${fileText(evals)}`}`,
    ],
    [
      "answers",
      `${quality.verdict}: a drop of ${points(drop)} points (${interval.map(points).join(" to ")}) over ${numItems} items, ${percent(before)} right before and ${percent(after)} after`,
    ],
  ];
}

/** Markdown with the front matter of Hugging Face's model cards. */
export function cardOf(
  { method, numBytes, bitsPerWeight, scaled, loss, quality }: Candidate,
  { model, calibration, evals, layout, rounding, date }: CardFacts,
): string {
  const rows = [
    ["method", `${method}, layout ${layout}`],
    ["rounding", rounding === "gptq" ? "GPTQ's" : "to the nearest"],
    ["scales of inputs", scaled === undefined ? "as in the original" : scaledText(scaled)],
    ["size", `${numBytes} bytes, ${bitsPerWeight.toFixed(2)} bits a weight`],
    ["calibrated with", calibrationText(calibration)],
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
    ...gateRows(quality, evals),
    ["made", `${date}, by millrace ${packageVersion()}`],
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
