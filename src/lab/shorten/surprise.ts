/** A model's surprise at the tokens of texts: log-probabilities of a prompt, from a model in this process. */
import { setMaxListeners } from "node:events";
import type { StartStage } from "../../core/stages.js";
import type { Engine } from "../../engine/api/engine.js";
import { type EngineSettings, startEngineWithText } from "../../local/start-engine.js";
import type { Surprise, TokenSurprise } from "../../prompts/shorten/extract.js";
import { runAll } from "../../quality/ask.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { promptLogprobs } from "../prompt-logprobs.js";

export interface SurpriseModel {
  readonly name: string;
  readonly surprise: Surprise;
  /** Number of tokens of a text. */
  count(text: string): number;
  close(): Promise<void>;
}

/** @param model a path or hf:org/repo[:file]; absent: the bundled model. Throws the errors of opening a model. */
export async function openSurpriseModel(
  model: string | undefined,
  settings: EngineSettings,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<SurpriseModel> {
  setMaxListeners(0, signal);
  const source = { ...(model === undefined ? {} : { model }), engine: settings };
  const { name, engine, tokenizer, asyncTokenizer } = await startEngineWithText(source, startStage);
  const encode = (text: string): number[] => tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
  const surprise: Surprise = async (texts) => {
    const results: (TokenSurprise | undefined)[] = new Array(texts.length);
    await runAll(texts, settings.maxNumSeqs, async (text, index) => {
      results[index] = await surpriseOf(text, engine, tokenizer, signal);
    });
    return results;
  };
  const close = async (): Promise<void> => {
    asyncTokenizer.end();
    await engine.close();
  };
  return { name, surprise, count: (text) => encode(text).length, close };
}

async function surpriseOf(
  text: string,
  engine: Engine,
  tokenizer: Tokenizer,
  signal: AbortSignal,
): Promise<TokenSurprise | undefined> {
  const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
  const ends = endsOf(text, ids, tokenizer);
  if (ends === undefined) return undefined;
  const { maxModelLen, numKvBlocks, blockSize } = engine.info;
  // Each window also needs a token before it, and room for one generated token.
  const length = Math.min(maxModelLen, numKvBlocks * blockSize) - 2;
  const before = tokenizer.bosId ?? tokenizer.eosId ?? ids[0]!;
  const nats: number[] = [];
  for (let start = 0; start < ids.length; start += length) {
    const window = ids.slice(start, start + length);
    const scores = await promptLogprobs(engine, Int32Array.from([before, ...window]), 0, signal);
    for (let at = 1; at <= window.length; at++) nats.push(-scores[at]!.logprob);
  }
  return { ends, nats };
}

/** UTF-16 end offsets of the tokens; undefined if they do not spell the text. */
function endsOf(text: string, ids: readonly number[], tokenizer: Tokenizer): number[] | undefined {
  const pieces = ids.map((id) => Buffer.from(tokenizer.tokenBytes(id)));
  const all = Buffer.concat(pieces);
  if (ids.length === 0 || !all.equals(Buffer.from(text))) return undefined;
  let numBytes = 0;
  let at = 0;
  let numUnits = 0;
  return pieces.map((piece) => {
    numBytes += piece.length;
    // A character that is split between tokens belongs to the token with its last byte.
    for (; at < numBytes; at += widthOf(all[at]!)) {
      if (at + widthOf(all[at]!) > numBytes) break;
      numUnits += widthOf(all[at]!) === 4 ? 2 : 1;
    }
    return numUnits;
  });
}

/** Bytes of the UTF-8 character that begins with this byte. */
const widthOf = (byte: number): number => (byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4);
