/**
 * Prints how much of the held-out chats the training chats already hold, by family, as a Markdown table:
 * `node overlap.js --seed 1 --count 100000 --held-out-seed 1000001 --held-out-count 2000`.
 */
import { parseArgs } from "node:util";
import { chatAt } from "./families.js";
import { ANSWER_WORDS, CHAT_WORDS, OverlapCount } from "./overlap-count.js";
import { readInteger } from "./read-integer.js";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "100000" },
    "held-out-seed": { type: "string", default: "1000001" },
    "held-out-count": { type: "string", default: "2000" },
  },
});
const seed = readInteger("seed", values.seed);
const numTraining = readInteger("count", values.count);
const heldOutSeed = readInteger("held-out-seed", values["held-out-seed"]);
const numHeldOut = readInteger("held-out-count", values["held-out-count"]);

const overlap = new OverlapCount(Array.from({ length: numHeldOut }, (_, index) => chatAt(heldOutSeed, index)));
for (let index = 0; index < numTraining; index++) overlap.addTraining(chatAt(seed, index));

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const header = `| family | chats | whole chat | last turn | answer | ${ANSWER_WORDS} words of the answer | ${CHAT_WORDS} words of the chat |`;
process.stdout.write(`${header}\n|---|---|---|---|---|---|---|\n`);
for (const row of overlap.report()) {
  const shares = [row.chats, row.turns, row.answers, row.answerRuns, row.chatRuns].map(percent);
  process.stdout.write(`| ${row.family} | ${row.numChats} | ${shares.join(" | ")} |\n`);
}
