/** Samples of production traffic as items of an evaluation. */
import { CHECK_NAMES, type CheckName } from "../../gateway/quality/checks/checks.js";
import type { ShownSample } from "../../gateway/quality/quality-app.js";
import type { Message } from "../../quality/ask.js";
import type { ScoredChat } from "../../quality/check.js";

/** Counts of samples that cannot be items, by reason. */
interface LeftOut {
  "without a text": number;
  "with images, tools or calls": number;
  "with nothing to check": number;
}

const ROLES: readonly string[] = ["system", "user", "assistant"];
/** An evaluation has no log-probabilities. */
const NOT_EVALUATED: readonly CheckName[] = ["uncertainty"];
/** A short correction is the phrase that a right answer must contain. */
const MAX_PHRASE = 60;

export function itemsOf(samples: readonly ShownSample[]): {
  readonly items: readonly ScoredChat[];
  readonly left: LeftOut;
} {
  const left: LeftOut = { "without a text": 0, "with images, tools or calls": 0, "with nothing to check": 0 };
  const items = samples.flatMap((sample) => {
    const { text, feedback } = sample;
    if (text === null) {
      left["without a text"]++;
      return [];
    }
    if (!text.plain || !text.messages.every(isMessage) || text.messages.at(-1)?.role !== "user") {
      left["with images, tools or calls"]++;
      return [];
    }
    // A correction of only spaces does not count.
    const correction = feedback?.correction?.trim() || undefined;
    const failing = CHECK_NAMES.filter(
      (name) => sample.verdicts[name]?.failing === true && !NOT_EVALUATED.includes(name),
    );
    if (correction === undefined && failing.length === 0) {
      left["with nothing to check"]++;
      return [];
    }
    const expected: Message = { role: "assistant", content: correction ?? text.answer };
    return [
      {
        family: correction === undefined ? failing[0]! : "correction",
        messages: [...text.messages, expected],
        check: correction === undefined ? withoutFaults(failing, text.format) : forCorrection(correction),
      },
    ];
  });
  return { items, left };
}

const isMessage = (message: { readonly role: string; readonly content: string }): message is Message =>
  ROLES.includes(message.role);

function withoutFaults(faults: readonly CheckName[], format: unknown): ScoredChat["check"] {
  return { kind: "without", faults, ...(format === null ? {} : { format }) };
}

function forCorrection(correction: string): ScoredChat["check"] {
  const phrase = correction.trim();
  if (phrase.length <= MAX_PHRASE && !phrase.includes("\n")) return { kind: "includes", texts: [phrase] };
  return {
    kind: "overlap",
    facts: [...new Set(phrase.match(/(?<![\p{L}\p{N}])\d[\d.,]*(?<=\d)(?![\p{L}\p{N}])/gu) ?? [])],
  };
}
