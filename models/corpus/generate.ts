/**
 * Writes chats as JSON lines: `node generate.js --seed 1 --count 1000 --out corpus.jsonl [--mixture edit=40,change=30]`
 * (standard output without --out). With `--redundant extract`, chats of that family with planted redundancy; with
 * `--recall 4800`, questions over texts of about so many letters.
 */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { parseArgs } from "node:util";
import { chatAt, readMixture } from "./families.js";
import { readInteger } from "./read-integer.js";
import { recallChats } from "./recall.js";
import { redundantChats } from "./redundant.js";

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string", default: "1" },
      count: { type: "string", default: "1000" },
      out: { type: "string" },
      mixture: { type: "string" },
      redundant: { type: "string" },
      recall: { type: "string" },
    },
  });
  const seed = readInteger("seed", values.seed);
  const numChats = readInteger("count", values.count);
  const mixture = values.mixture === undefined ? undefined : readMixture(values.mixture);
  const { redundant, recall } = values;
  const chats =
    redundant !== undefined
      ? redundantChats(seed, numChats, redundant)
      : recall !== undefined
        ? recallChats(seed, numChats, readInteger("recall", recall))
        : undefined;
  const output = values.out === undefined ? process.stdout : createWriteStream(values.out);
  for (let index = 0; index < numChats; index++) {
    if (!output.write(`${JSON.stringify(chats?.[index] ?? chatAt(seed, index, mixture))}\n`))
      await once(output, "drain");
  }
  if (output !== process.stdout) {
    output.end();
    await once(output, "finish");
  }
}

await main();
