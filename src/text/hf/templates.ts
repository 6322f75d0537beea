/** Reads from a tokenizer.json the tokens around one text and between two texts. */
import { type JsonObject, shownValue } from "../../formats/files/json.js";
import type { PairTemplate } from "../tokenizer/tokenizer.js";
import { corrupt } from "../tokenizer/vocabulary.js";
import { refuse } from "./pipeline.js";

interface Templates {
  /** Ids before and after a single text; undefined: none. */
  readonly bosId: number | undefined;
  readonly endId: number | undefined;
  readonly pair: PairTemplate | undefined;
}

const NONE: Templates = { bosId: undefined, endId: undefined, pair: undefined };

type IdOf = (text: string | undefined) => number | undefined;

/** @param numTokens rows of the embedding @throws tokenizer_corrupt */
export function readTemplates(json: JsonObject, idOf: IdOf, numTokens: number): Templates {
  const post = json.object("post_processor");
  const parts = post?.string("type") === "Sequence" ? (post.objects("processors") ?? []) : post ? [post] : [];
  for (const part of parts) {
    const type = part.string("type");
    if (type === "TemplateProcessing") return fromTemplate(part, idOf);
    if (type === "BertProcessing") return fromEnds(part, 1, numTokens);
    if (type === "RobertaProcessing") return fromEnds(part, 2, numTokens);
  }
  return NONE;
}

/** At most one token on each side of a single text is supported. */
function fromTemplate(template: JsonObject, idOf: IdOf): Templates {
  const items = template.objects("single") ?? [];
  const textAt = items.findIndex((item) => item.has("Sequence"));
  const before = items.slice(0, Math.max(0, textAt));
  const after = items.slice(textAt + 1);
  if (textAt === -1 || before.length > 1 || after.length > 1) {
    throw refuse(template, "single", "a text with at most one token before and after it");
  }
  const tokenOf = (item: JsonObject | undefined) => item?.object("SpecialToken")?.string("id");
  return { bosId: idOf(tokenOf(before[0])), endId: idOf(tokenOf(after[0])), pair: pairOf(template, idOf) };
}

/** undefined: the template does not join a first and a second text, or the vocabulary lacks one of its tokens. */
function pairOf(template: JsonObject, idOf: IdOf): PairTemplate | undefined {
  const items = template.objects("pair") ?? [];
  const texts = items.flatMap((item, index) => (item.has("Sequence") ? [index] : []));
  const [first, second] = texts;
  if (texts.length !== 2 || first === undefined || second === undefined) return undefined;
  if (items[first]!.object("Sequence")!.string("id") !== "A") return undefined;
  const tokens = (from: number, to: number) =>
    items.slice(from, to).map((item) => idOf(item.object("SpecialToken")?.string("id")));
  const [before, between, after] = [tokens(0, first), tokens(first + 1, second), tokens(second + 1, items.length)];
  if ([...before, ...between, ...after].includes(undefined)) return undefined;
  const ofSecond = items
    .slice(first + 1, second)
    .findIndex((item) => (item.object("SpecialToken")?.number("type_id") ?? 0) !== 0);
  return {
    before: before as number[],
    between: between as number[],
    after: after as number[],
    numBetweenOfFirst: ofSecond === -1 ? between.length : ofSecond,
  };
}

/** The older kinds: cls, text, sep; cls, text, sep once or twice, text, sep. */
function fromEnds(part: JsonObject, numBetween: number, numTokens: number): Templates {
  const id = (key: string): number => {
    const value = part.array(key);
    const found = value?.[1];
    if (typeof found === "number" && Number.isInteger(found) && found >= 0 && found < numTokens) return found;
    throw corrupt(`expected ${part.nameOf(key)} to be a token and its id, got ${shownValue(value)}`);
  };
  const [before, after] = [id("cls"), id("sep")];
  const between = new Array<number>(numBetween).fill(after);
  return {
    bosId: before,
    endId: after,
    pair: { before: [before], between, after: [after], numBetweenOfFirst: numBetween === 1 ? 1 : 0 },
  };
}
