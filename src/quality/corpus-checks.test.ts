/** The corpus against the scorers: every expected answer passes its own check, and answers to other chats fail. */
import { describe, expect, it } from "vitest";
import { makeFunction } from "../../models/corpus/code.js";
import { functionKinds } from "../../models/corpus/code-kinds.js";
import { chatAt, families, readMixture } from "../../models/corpus/families.js";
import { createRandom } from "../../models/corpus/random.js";
import { cases } from "../../test/helpers/long.js";
import { type Check, parseChats, type ScoredChat } from "./check.js";
import { whyUnconfined } from "./sandbox/run-code.js";
import { scoreAnswer } from "./score-answer.js";

const SEED = 1_000_001;
const NUM_CHATS = 300;
/** Each piece of code runs in a separate process. */
const NUM_CODE_CHATS = cases(4, 24);
const TIMEOUT_MS = 300_000;

const chatsOf = (family: string, count: number): ScoredChat[] =>
  parseChats(
    Array.from({ length: count }, (_, index) => JSON.stringify(chatAt(SEED, index, readMixture(family)))).join("\n"),
    family,
  );

const answerOf = ({ messages }: ScoredChat): string => messages.at(-1)?.content ?? "";

const hasWalls = (await whyUnconfined("typescript")) === undefined;

describe.each(families.map(({ name }) => name).filter((name) => hasWalls || name !== "code"))("%s", (family) => {
  const chats = chatsOf(family, family === "code" ? NUM_CODE_CHATS : NUM_CHATS);

  it(
    "every expected answer scores 1",
    async () => {
      const scores = await Promise.all(chats.map((chat) => scoreAnswer(chat.check, answerOf(chat), answerOf(chat))));
      for (const [index, chat] of chats.entries()) {
        const { score, exact, note } = scores[index]!;
        if (score !== 1 || !exact) {
          expect.fail(`expected ${answerOf(chat)} to be right by ${JSON.stringify(chat.check)}, got ${note}`);
        }
      }
    },
    TIMEOUT_MS,
  );

  it(
    "few answers are right for another chat",
    async () => {
      const scored = chats.filter(({ check }) => check.kind !== "none");
      if (scored.length === 0 || family === "list") return;
      const others = await Promise.all(
        scored.map((chat, index) => {
          const other = answerOf(scored[(index + 1) % scored.length] as ScoredChat);
          return other === answerOf(chat) ? undefined : scoreAnswer(chat.check, answerOf(chat), other);
        }),
      );
      expect(others.filter((score) => score?.exact).length / scored.length).toBeLessThan(0.03);
    },
    TIMEOUT_MS,
  );
});

describe.skipIf(!hasWalls).each(["typescript", "python"] as const)("functions in %s", (language) => {
  it(
    "of every kind do what their checks say",
    async () => {
      await Promise.all(
        functionKinds.map(async (kind, index) => {
          if (index % cases(8, 1) !== 0) return;
          const { answer, check } = makeFunction(createRandom(SEED, index), kind, language);
          const score = await scoreAnswer(check as Check, answer, answer);
          if (!score.exact) expect.fail(`expected ${answer}\nto do what it says: ${kind.does}, got ${score.note}`);
        }),
      );
    },
    TIMEOUT_MS,
  );
});
