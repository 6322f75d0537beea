/**
 * The form of a question: its kind, and its words without the words that only frame it. Two questions with the same
 * form are the same question. The rules leave unknown wording as it is, so a gap in them costs a hit and never makes a
 * false one.
 */
import {
  CASE_SENSITIVE,
  CUE_WORDS,
  EMPTY_WORDS,
  FILLERS,
  PARTICIPLES,
  PRESENT_AUXILIARIES,
  RELATIONS,
} from "../words/english.js";
import {
  BARE_CONTRACTIONS,
  CONTRACTIONS,
  ENGLISH_ENDINGS,
  ENGLISH_FRAMES,
  type Frame,
  type Step,
} from "../words/frames.js";
import type { Unit } from "./quantities.js";
import { looksLikeName } from "./tokens.js";

export interface Part {
  /**
   * The one form of a quantity (`#5 km`), a quotation (`"…`) or code (`` `… ``); else a word in small letters, or a
   * sign.
   */
  readonly text: string;
  readonly isWord: boolean;
  /** Whether the word is written as a name: it is compared letter by letter. */
  readonly isName: boolean;
  /** Whether `a` or `an` precedes it. */
  readonly isOne: boolean;
}

export interface Form {
  /** WHAT, HOWTO, YESNO, … of the frames; OTHER: none of them. */
  readonly kind: string;
  /** Auxiliaries of time, ability or obligation, sorted. */
  readonly cues: readonly string[];
  readonly parts: readonly Part[];
}

interface Word extends Part {
  /** Whether it is a comma or another mark of prose. */
  readonly isStop: boolean;
}

const STOP: Word = { text: ",", isWord: false, isName: false, isOne: false, isStop: true };

/** @param isEnglish if false, nothing is removed, and only equal words are equal */
export function formOf(units: readonly Unit[], isEnglish: boolean): Form {
  const words = units.flatMap(wordsOf);
  if (!isEnglish) return { kind: "OTHER", cues: [], parts: words.filter(({ isStop }) => !isStop) };
  const {
    kind,
    cues: framed,
    asker,
    rest,
  } = unframed(frontLast(withoutEnding(words.filter(({ text }) => !FILLERS.has(text)))));
  const meant = withoutEcho(kind === "WHAT" ? asDefinition(rest) : { kind, rest });
  const owners = meant.kind === "HOWTO" ? (OWN.get(asker) ?? []) : [];
  const cues = [...framed, ...cuesOf(meant.rest, meant.kind)].sort();
  const parts = ordered(genitives(partsOf(meant.rest, owners)));
  return { kind: meant.kind, cues, parts: parts.filter(({ isStop }) => !isStop) };
}

function wordsOf({ token, quantity }: Unit): Word[] {
  const plain = { isName: false, isOne: false, isStop: false };
  if (quantity !== undefined) return [{ ...plain, text: `#${quantity}`, isWord: false }];
  switch (token.kind) {
    case "stop":
      return [STOP];
    case "quote":
      return [{ ...plain, text: `"${token.lower}`, isWord: false }];
    case "code":
      return [{ ...plain, text: `\`${token.text.replace(/^`+|`+$/g, "")}`, isWord: false }];
    case "word": {
      const isName = looksLikeName(token);
      const isAcronym = /^\p{Lu}{2,}$/u.test(token.text) && CASE_SENSITIVE.has(token.lower);
      if (isAcronym) return [{ ...plain, text: token.text, isWord: true, isName: true }];
      return expanded(token.lower).map((text) => ({ ...plain, text, isWord: true, isName: isName && text !== "'s" }));
    }
    default:
      return [{ ...plain, text: token.lower, isWord: false }];
  }
}

function expanded(lower: string): readonly string[] {
  const bare = BARE_CONTRACTIONS.get(lower);
  if (bare !== undefined) return bare.split(" ");
  if (!lower.includes("'") && lower !== "cannot" && lower !== "cant") return [lower];
  for (const [pattern, replacement] of CONTRACTIONS) {
    if (pattern.test(lower)) return lower.replace(pattern, replacement).split(" ");
  }
  return [lower];
}

/** @returns the index after the steps; undefined if they do not match. A missing optional step is tried second. */
function matchSteps(words: readonly Word[], steps: readonly Step[], at: number, step = 0): number | undefined {
  const expected = steps[step];
  if (expected === undefined) return at;
  const word = words[at];
  if (word !== undefined && (word.isWord || word.isStop) && expected.words.has(word.text)) {
    const end = matchSteps(words, steps, at + 1, step + 1);
    if (end !== undefined) return end;
  }
  return expected.isOptional ? matchSteps(words, steps, at, step + 1) : undefined;
}

function withoutStops(words: readonly Word[]): readonly Word[] {
  const start = words.findIndex(({ isStop }) => !isStop);
  return start < 0 ? [] : words.slice(start);
}

function withoutEnding(words: readonly Word[]): readonly Word[] {
  let kept = words.slice(0, words.findLastIndex(({ isStop }) => !isStop) + 1);
  for (let isChanged = true; isChanged && kept.length > 1; ) {
    isChanged = false;
    for (const steps of ENGLISH_ENDINGS) {
      const start = kept.length - steps.length;
      if (start <= 0 || matchSteps(kept, steps, start) !== kept.length) continue;
      kept = kept.slice(0, start);
      kept = kept.slice(0, kept.findLastIndex(({ isStop }) => !isStop) + 1);
      isChanged = true;
    }
  }
  return kept;
}

/** Moves a front part to the end: `In Python, how do I sort a list` is `How do I sort a list in Python`. */
function frontLast(words: readonly Word[]): readonly Word[] {
  const FRONTED = ["in", "for", "on", "at", "with", "using", "under", "during", "as", "to"];
  const comma = words.findIndex(({ isStop }) => isStop);
  if (words[0] === undefined || !FRONTED.includes(words[0].text) || comma < 2 || comma > 8) return words;
  const rest = words.slice(comma + 1);
  const isQuestion = /^(?:how|what|which|who|when|where|why|is|are|do|does|did|can|could|should|was|were|will)$/.test(
    rest[0]?.text ?? "",
  );
  return isQuestion && !rest.some(({ isStop }) => isStop) ? [...rest, ...words.slice(0, comma)] : words;
}

interface Unframed {
  readonly kind: string;
  /** Auxiliaries from the frame. */
  readonly cues: readonly string[];
  /** The person who would do the action in question, as the frame names it. */
  readonly asker?: string | undefined;
  readonly rest: readonly Word[];
}

function unframed(words: readonly Word[]): Unframed {
  let rest = withoutStops(words);
  for (let round = 0; round < 8; round++) {
    const found = firstFrame(rest);
    if (found === undefined) break;
    const { frame, end } = found;
    const matched = rest.slice(0, end);
    const behind = rest.slice(end);
    const [kind, extra] = frame.becomes;
    if (kind === undefined) {
      if (withoutStops(behind).length === 0) break;
      rest = withoutStops(behind);
      continue;
    }
    const last = matched.at(-1)!;
    // After `could you`, the verb or the question word begins a frame of its own.
    if (kind === "$last") {
      rest = [last, ...behind];
      continue;
    }
    // A kind in small letters is the common form of a request's verb.
    if (/^[a-z]/.test(kind)) {
      rest = [{ ...last, text: kind, isName: false }, ...behind];
      if (kind !== "explain") return { kind: "OTHER", cues: [], rest };
      continue;
    }
    const cues =
      extra === undefined
        ? []
        : matched.flatMap(({ text }) => (isBe(text) ? ["be"] : CUE_WORDS.has(text) ? [text] : []));
    const asker = matched.findLast(({ text }) => OWN.has(text))?.text;
    return { kind: kind.replace("$last", last.text), cues, asker, rest: withoutStops(behind) };
  }
  return { kind: "OTHER", cues: [], rest };
}

function firstFrame(words: readonly Word[]): { readonly frame: Frame; readonly end: number } | undefined {
  for (const frame of ENGLISH_FRAMES) {
    const end = matchSteps(words, frame.steps, 0);
    if (end !== undefined) return { frame, end };
  }
  return undefined;
}

/** "What does X mean", "what is the meaning of X". */
interface Kinded {
  readonly kind: string;
  readonly rest: readonly Word[];
}

function asDefinition(words: readonly Word[]): Kinded {
  const texts = words.map(({ text }) => text);
  const isPresent = (text: string | undefined) => text === "is" || text === "do" || text === "does";
  if (isPresent(texts[0]) && texts.at(-1) === "mean") return { kind: "DEFINE", rest: words.slice(1, -1) };
  const start = texts[0] === "is" ? 1 : 0;
  const at = texts[start] === "the" ? start + 1 : start;
  const isDefinition = (texts[at] === "meaning" || texts[at] === "definition") && texts[at + 1] === "of";
  if (isDefinition) return { kind: "DEFINE", rest: words.slice(at + 2) };
  if (texts[0] === "is" && texts[1] === "meant" && texts[2] === "by") return { kind: "DEFINE", rest: words.slice(3) };
  return { kind: "WHAT", rest: words };
}

const isBe = (text: string | undefined) => text !== undefined && /^(?:is|are|am|be|being)$/.test(text);
/** After `be` and after `do`, these ask for different things: what is it like, what does it like. */
const LAST_OF_BE = new Set(["like", "for", "about", "up", "on"]);

const LOCATED = new Set(["located", "situated"]);
/** Verbs after which `into` and `to` are the same. */
const CONVERTING = new Set(["convert", "translate", "turn", "change", "transform", "translating", "converting"]);
const REQUESTS = new Set([
  "write",
  "draw",
  "make",
  "create",
  "generate",
  "compose",
  "draft",
  "find",
  "translate",
  "summarize",
]);

/** Removes words that only repeat the question's kind, or name the receiver of the answer. */
function withoutEcho({ kind, rest }: Kinded): Kinded {
  const last = rest.at(-1)?.text ?? "";
  if (kind === "WHERE" && LOCATED.has(last)) return { kind, rest: rest.slice(0, -1) };
  if (rest.some(({ text }) => CONVERTING.has(text))) {
    return { kind, rest: rest.map((word) => (word.text === "into" ? { ...word, text: "to" } : word)) };
  }
  const isForMe = last === "me" && (rest.at(-2)?.text === "to" || rest.at(-2)?.text === "for");
  if (kind === "EXPLAIN" && isForMe) return { kind, rest: rest.slice(0, -2) };
  if (kind === "OTHER" && REQUESTS.has(rest[0]?.text ?? "")) {
    const kept = isForMe ? rest.slice(0, -2) : rest;
    return { kind, rest: kept[1]?.text === "me" ? [kept[0]!, ...kept.slice(2)] : kept };
  }
  // A fragment such as "the capital of France" asks what that is.
  const of = rest.findIndex(({ text }) => text === "of");
  const isFragment =
    of >= 1 && of <= 3 && rest.length <= 8 && !NO_FRAGMENT.has(rest[0]!.text) && !rest.some(({ text }) => isVerb(text));
  return kind === "OTHER" && isFragment ? { kind: "WHAT", rest } : { kind, rest };
}

/** Words that begin a sentence or a request, and not the name of something. */
const NO_FRAGMENT = new Set(
  `i you we he she they it this that list name give tell show write make create explain describe summarize translate compare find define get take think
  dream talk speak learn hear because instead example all some most many none one each out because let draw design`.split(
    /\s+/,
  ),
);
const isVerb = (text: string): boolean => isBe(text) || CUE_WORDS.has(text) || text === "do" || text === "does";

function cuesOf(words: readonly Word[], kind: string): readonly string[] {
  const cues = words
    .filter(({ text, isWord, isName }) => isWord && !isName && CUE_WORDS.has(text))
    .map(({ text }) => text);
  const be = words.findIndex(({ text }) => isBe(text));
  // Distinguishes who called from who is called, and when the shop opens from when it is open.
  const isPassive =
    be >= 0 && words.slice(be).some(({ text, isWord }) => isWord && (/[^e]ed$/.test(text) || PARTICIPLES.has(text)));
  const last = words.at(-1)?.text ?? "";
  const isCopula =
    (kind === "HOWMANY" || (kind === "WHAT" && (isBe(words[0]?.text) || isBe(last)))) &&
    !isPassive &&
    !LAST_OF_BE.has(last);
  return be >= 0 && !isCopula ? [...cues, "be"] : cues;
}

/**
 * A question about one's own thing is not a question about oneself: the words for "own", by the word for the person who
 * acts.
 */
const OWN: ReadonlyMap<string | undefined, readonly string[]> = new Map([
  ["i", ["my"]],
  ["we", ["our"]],
  ["you", ["your"]],
  [undefined, ["my", "your"]],
]);

/** @param owners possessives without meaning */
function partsOf(words: readonly Word[], owners: readonly string[]): Word[] {
  const parts: Word[] = [];
  let isOne = false;
  for (const [i, word] of words.entries()) {
    const { text, isWord, isName } = word;
    if (isWord && !isName) {
      if (text === "a" || text === "an") isOne = true;
      if (text === "do" || text === "does") {
        const isFirst = i === words.findIndex((each) => each.text === "do" || each.text === "does");
        if (!isFirst || i === words.length - 1) parts.push({ ...word, text: "do", isOne: false });
        continue;
      }
      if (EMPTY_WORDS.has(text) || PRESENT_AUXILIARIES.has(text) || CUE_WORDS.has(text)) continue;
      if (owners.includes(text)) continue;
      const previous = words[i - 1]?.text ?? "";
      if (text === "there" && (PRESENT_AUXILIARIES.has(previous) || previous === "were" || previous === "was"))
        continue;
    }
    parts.push({ ...word, isOne });
    if (!word.isStop) isOne = false;
  }
  return parts;
}

/**
 * Rewrites possessives: Brazil's population is the population of Brazil. A question with several possessors keeps them
 * in place.
 */
function genitives(words: readonly Word[]): readonly Word[] {
  const mark = words.findIndex(({ text }) => text === "'s");
  if (mark < 1 || words.findLastIndex(({ text }) => text === "'s") !== mark) return words;
  let start = mark - 1;
  while (start > 0 && words[start]!.isName && words[start - 1]!.isName) start--;
  let end = mark + 1;
  while (end < words.length && words[end]!.isWord && !RELATIONS.has(words[end]!.text)) end++;
  if (end === mark + 1) return words;
  const possessor = words.slice(start, mark);
  const isWorld = possessor.length === 1 && possessor[0]!.text === "world";
  const inside = isWorld ? [{ ...possessor[0]!, text: "in" }] : [];
  return [...words.slice(0, start), ...words.slice(mark + 1, end), ...inside, ...possessor, ...words.slice(end)];
}

/** Sorts parts whose order is free: to A from B, between A and B if the two are alike. */
function ordered(words: readonly Word[]): readonly Word[] {
  const at = (text: string) => words.findIndex((word) => word.isWord && word.text === text);
  const [to, from] = [at("to"), at("from")];
  const isRelation = (word: Word) => word.isStop || (word.isWord && RELATIONS.has(word.text));
  if (to >= 0 && from > to + 1 && !words.slice(to + 1, from).some(isRelation)) {
    const end = words.findIndex((word, i) => i > from && isRelation(word));
    const stop = end < 0 ? words.length : end;
    return [...words.slice(0, to), ...words.slice(from, stop), ...words.slice(to, from), ...words.slice(stop)];
  }
  const [between, and] = [at("between"), at("and")];
  const isMutual = /^(?:differences?|similarit(?:y|ies)|distance)$/.test(words[between - 1]?.text ?? "");
  if (!isMutual || and < between + 2 || words.slice(and + 1).some((word) => isRelation(word) || word.text === "and"))
    return words;
  const sides = [words.slice(between + 1, and), words.slice(and + 1)];
  const key = (side: readonly Word[]) => side.map(({ text }) => text).join(" ");
  if (key(sides[0]!) > key(sides[1]!)) sides.reverse();
  return [...words.slice(0, between + 1), ...sides[0]!, words[and]!, ...sides[1]!];
}
