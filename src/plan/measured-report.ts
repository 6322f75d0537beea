/** Reads the report that `millrace quantize --evals` leaves beside a file. */
import { statSync } from "node:fs";
import { contentHashOf } from "../formats/content-hash.js";
import { readJsonFile } from "../formats/files/json.js";

const points = (share: number): string => (100 * share).toFixed(1);

/**
 * The report as a sentence without its full stop; undefined if there is no report beside the model, if it is of other
 * bytes, or if the model failed. Throws `model_config` if the report is damaged.
 * @param files of the model, which are read whole if there is a report
 */
export function measuredBeside(path: string, files: readonly string[]): string | undefined {
  const file = `${path.replace(/(?<=.)\/+$/, "")}.json`;
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return undefined;
  const report = readJsonFile(file);
  const quality = report.object("quality");
  const overall = quality?.object("overall");
  const [drop, numItems, most] = [overall?.number("drop"), overall?.number("numItems"), quality?.number("maxDrop")];
  if (drop === undefined || numItems === undefined || most === undefined) return undefined;
  if (quality?.string("verdict") !== "passes") return undefined;
  if (report.string("content") !== contentHashOf(files, () => {})) return undefined;
  return `millrace quantize on this file: a drop of ${points(drop)} points over ${numItems} items, which passes at ${points(most)}`;
}
