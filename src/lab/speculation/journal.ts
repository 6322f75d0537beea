/** Measurements of a tuning of drafts on disk, from which an interrupted tuning resumes. */
import { z } from "zod";
import { JournalFile } from "../tune/journal-file.js";
import type { DraftsBench, Look } from "./search.js";

const cell = z.object({
  ratios: z.array(z.number().positive()).min(1),
  numDraftTokens: z.number(),
  numAcceptedTokens: z.number(),
  numTokens: z.number(),
  numSteps: z.number(),
});
const results = z.object({
  /** One per request, in order; undefined until all have an answer. */
  answers: z.array(z.object({ name: z.string(), because: z.string(), decodingMs: z.number() })).optional(),
  measured: z.array(
    z.object({
      candidate: z.string(),
      look: z.string(),
      measured: z.union([z.object({ cells: z.array(cell).min(1) }), z.object({ problem: z.string() })]),
    }),
  ),
});
type Results = z.infer<typeof results>;

/** A request's class, and its decoding time without drafts. */
export type ClassedAnswer = NonNullable<Results["answers"]>[number];

export class SpeculationJournal {
  readonly #file: JournalFile<Results>;
  #results: Results;

  /** Like JournalFile, which throws invalid_option. */
  constructor(folder: string, settings: object, isResumed: boolean) {
    const kind = { name: "speculation.json", format: "millrace-tune-speculation", version: 1, results };
    this.#file = new JournalFile(folder, kind, settings, isResumed);
    this.#results = this.#file.past ?? { measured: [] };
    this.#file.save(this.#results);
  }

  /** @param make called if the journal has no answers */
  async answers(make: () => Promise<readonly ClassedAnswer[]>): Promise<readonly ClassedAnswer[]> {
    const answers = this.#results.answers ?? [...(await make())];
    this.#save({ ...this.#results, answers });
    return answers;
  }

  /** Measures only cells that the journal lacks. */
  recorded(bench: DraftsBench): DraftsBench {
    return {
      measure: async (candidate, numRounds, look) => {
        const past = this.#find(candidate.name, look);
        if (past !== undefined) return past;
        const measured = await bench.measure(candidate, numRounds, look);
        const one = { candidate: candidate.name, look, measured } as Results["measured"][number];
        this.#save({ ...this.#results, measured: [...this.#results.measured, one] });
        return measured;
      },
    };
  }

  #find(name: string, look: Look): Results["measured"][number]["measured"] | undefined {
    return this.#results.measured.find((each) => each.candidate === name && each.look === look)?.measured;
  }

  #save(next: Results): void {
    this.#results = next;
    this.#file.save(next);
  }
}
