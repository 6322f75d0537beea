/** A model's tokenizer without its engine, for counting. */
import type { StartStage } from "../../core/stages.js";
import { locateModel } from "../../formats/locate-model.js";

/**
 * @param model a path or hf:org/repo[:file]; undefined: the bundled model
 * @returns a function from text to token ids, without special ones
 */
export async function openEncoder(
  model: string | undefined,
  startStage: StartStage,
): Promise<(text: string) => readonly number[]> {
  const { loadTextSide } = await import("../../text/text-side.js");
  const { path } = await locateModel(model, startStage);
  const { tokenizer, asyncTokenizer } = await loadTextSide(path);
  asyncTokenizer.end();
  return (text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
}
