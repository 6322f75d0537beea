/**
 * The tokens of a tokenizer.json: the model's own by text, the added ones by id, and a name for every further row of
 * the embedding.
 */
import { type JsonObject, shownValue } from "../../formats/files/json.js";
import { corrupt, MAX_VOCAB_SIZE, parseByteToken, TOKEN_TYPE, type Vocabulary } from "../tokenizer/vocabulary.js";

interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether decoding omits the token, and only text that may contain special tokens matches it. */
  readonly isSpecial: boolean;
  /** Whether the token absorbs the white space before or after it. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Whether the token counts only between word boundaries. */
  readonly isSingleWord: boolean;
}

/** Added tokens without an embedding are left out; they are placeholders, for example for images. */
export function readAddedTokens(json: JsonObject, numEmbeddings: number): readonly AddedToken[] {
  return (json.objects("added_tokens") ?? []).flatMap((token): AddedToken[] => {
    const id = token.number("id");
    const content = token.string("content");
    if (id === undefined || !Number.isInteger(id) || id < 0 || content === undefined || content === "") {
      throw corrupt(
        `expected an id and a text for every one of ${json.nameOf("added_tokens")}, got ${id} and ${content}`,
      );
    }
    if (id >= numEmbeddings) return [];
    return [
      {
        id,
        content,
        isSpecial: token.boolean("special") === true,
        lstrip: token.boolean("lstrip") === true,
        rstrip: token.boolean("rstrip") === true,
        isSingleWord: token.boolean("single_word") === true,
      },
    ];
  });
}

/** Ids of the model's own tokens and of the added ones. */
export const idsByText = (vocab: Vocabulary, added: readonly AddedToken[]): ReadonlyMap<string, number> =>
  new Map([...vocab.idByText, ...added.map(({ id, content }) => [content, id] as const)]);

/**
 * Texts and types of ids 0 … numEmbeddings − 1. `idByText` has only the model's own tokens, which merges produce.
 * Throws `tokenizer_corrupt` for ids out of range or given twice.
 */
export function readHfVocabulary(model: JsonObject, added: readonly AddedToken[], numEmbeddings: number): Vocabulary {
  const entries = model.string("type") === "Unigram" ? scoredEntries(model) : plainEntries(model);
  if (numEmbeddings >= MAX_VOCAB_SIZE) {
    throw corrupt(`expected fewer than ${MAX_VOCAB_SIZE} tokens, got an embedding of ${numEmbeddings}`);
  }
  const texts = Array.from({ length: numEmbeddings }, (_, id) => `[UNUSED_${id}]`);
  const types = new Uint8Array(numEmbeddings).fill(TOKEN_TYPE.unused);
  const idByText = new Map<string, number>();
  const hasByteFallback = model.boolean("byte_fallback") === true;
  for (const [text, id] of entries.ids) {
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id >= numEmbeddings) {
      throw corrupt(`expected token ids in 0..${numEmbeddings - 1}, one for each row of the embedding, got ${id}`);
    }
    if (types[id] !== TOKEN_TYPE.unused) {
      throw corrupt(`expected one text for each id, got ${JSON.stringify(text)} and another for ${id}`);
    }
    texts[id] = text;
    types[id] = hasByteFallback && parseByteToken(text) !== undefined ? TOKEN_TYPE.byte : TOKEN_TYPE.normal;
    idByText.set(text, id);
  }
  for (const { id, content, isSpecial } of added) {
    if (types[id] !== TOKEN_TYPE.unused && texts[id] !== content) {
      throw corrupt(`expected one text for each id, got ${JSON.stringify(content)} and another for ${id}`);
    }
    texts[id] = content;
    types[id] = isSpecial ? TOKEN_TYPE.control : TOKEN_TYPE.userDefined;
  }
  return { texts, types, idByText, scores: entries.scores };
}

interface Entries {
  readonly ids: readonly (readonly [text: string, id: unknown])[];
  readonly scores: Float64Array | undefined;
}

function plainEntries(model: JsonObject): Entries {
  const vocab = model.object("vocab");
  if (vocab === undefined) throw corrupt(`expected ${model.nameOf("vocab")} to list the tokens, got none`);
  return { ids: Object.entries(vocab.raw), scores: undefined };
}

/** A list of texts with their scores; a token's id is its index. */
function scoredEntries(model: JsonObject): Entries {
  const vocab = model.array("vocab") ?? [];
  const scores = new Float64Array(vocab.length);
  const ids = vocab.map((entry, id) => {
    const [text, score] = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
    if (typeof text !== "string" || typeof score !== "number" || !Number.isFinite(score)) {
      throw corrupt(`expected ${model.nameOf("vocab")}[${id}] to be a text and a score, got ${shownValue(entry)}`);
    }
    scores[id] = score;
    return [text, id] as const;
  });
  return { ids, scores };
}
