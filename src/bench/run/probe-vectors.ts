/**
 * Probes a server of vectors: the words that are single tokens, the tokens that it adds to a text, and its vectors of
 * some texts.
 */
import { Pool } from "undici";
import { complete } from "../load/completion.js";
import { LoopWatch } from "../load/loop-watch.js";
import { readVectors } from "../load/vectors-answer.js";
import { prose } from "../workload/prose.js";
import { Random } from "../workload/random.js";
import type { ProbedServer } from "../workload/traffic.js";
import { chosenModel, type ServerAddress, unusable } from "./probe.js";

/** Enough words to contain most of the benchmark's vocabulary. */
const VOCABULARY_WORDS = 3000;
/** The probe sends a word once and this many times: the difference gives its length in tokens. */
const REPEATED = 9;
/** Number of texts of each size for the comparison of vectors. */
const TEXTS_PER_SIZE = 4;
/** Words of prose per token, so that a text stays within the measured size. */
const WORDS_PER_TOKEN = 0.5;

/** @param sizes sizes of the measured texts in tokens. Rejects with peer_failed when no usable server answers. */
export async function probeVectors(
  address: ServerAddress,
  sizes: readonly number[],
  signal?: AbortSignal,
): Promise<ProbedServer> {
  const { model, maxModelLen } = await chosenModel(address);
  const { origin, pathname } = new URL(address.url);
  const pool = new Pool(origin, { headersTimeout: address.timeoutMs, bodyTimeout: address.timeoutMs });
  const now = () => performance.now();
  const basePath = pathname.replace(/\/$/, "");
  const connection = { pool, basePath, headers: address.headers, now, watch: new LoopWatch(now) };
  const embed = async (input: readonly string[]) => {
    signal?.throwIfAborted();
    const turn = { path: "/v1/embeddings", body: JSON.stringify({ model, input }), numTokensAsked: undefined };
    const asked = { ...turn, numVectorsAsked: input.length };
    const { record, answer } = await complete(connection, { session: 0, turn: 0, intendedMs: now() }, asked);
    const read = readVectors(answer);
    if (record.failure !== undefined || "kind" in read) {
      throw unusable(
        address,
        `/v1/embeddings: ${record.failure?.detail}`,
        "start a server of an embedding model there",
      );
    }
    return read;
  };
  try {
    const candidates = [...new Set(prose(new Random(0), VOCABULARY_WORDS).split(" "))].filter((w) =>
      /^[a-z]+$/.test(w),
    );
    const lengthOf = async (word: string, count: number) =>
      (await embed([Array.from({ length: count }, () => word).join(" ")])).numTokens;
    const words: string[] = [];
    let overhead = 0;
    for (const word of candidates) {
      const once = await lengthOf(word, 1);
      const isOneToken = (await lengthOf(word, REPEATED)) - once === REPEATED - 1;
      if (!isOneToken) continue;
      words.push(word);
      overhead = once - 1;
    }
    if (words.length === 0) throw unusable(address, "no word of one token by usage.prompt_tokens");
    const random = new Random(1);
    const texts = sizes.flatMap((size) =>
      Array.from({ length: TEXTS_PER_SIZE }, () => prose(random, Math.max(1, Math.floor(size * WORDS_PER_TOKEN)))),
    );
    const { vectors: ofTexts } = await embed(texts);
    return {
      model,
      hasCompletions: false,
      hasChat: false,
      tokenIds: [],
      ignoresEos: false,
      hasJsonMode: false,
      tokensPerWord: 1,
      promptOverhead: overhead,
      chatOverhead: 0,
      maxModelLen,
      vectors: { words, overhead, ofTexts },
    };
  } finally {
    await pool.destroy();
  }
}
