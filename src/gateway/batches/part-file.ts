/**
 * A part of a batch: lines of one model that go to its provider in one file. Its state is written before each step, so
 * that a killed gateway finds out what it has sent.
 *
 * reserving: the lines are on the disk, and a reservation may exist; ready: any reservation is made; sending: the
 * provider may have the lines; sent: the provider's batch is known; over: every line has its result, or gets none here.
 */
import { open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { Amounts } from "../budget/store.js";
import type { BatchFolders } from "./folders.js";

const nano = z
  .string()
  .regex(/^\d+$/)
  .transform((digits) => BigInt(digits));
const price = z.object({ version: z.string(), fresh: nano, cacheRead: nano, cacheWrite: nano, output: nano });

const part = z.object({
  /** Index of the model in the batch's list. */
  model: z.number(),
  /** From 0, for each model. */
  number: z.number(),
  /** The part's lines are those of its model in [from, to). */
  from: z.number(),
  to: z.number(),
  numLines: z.number(),
  path: z.string(),
  headers: z.record(z.string(), z.string()),
  /** Amounts reserved of budgets; absent: no budget applies. */
  reserved: z.object({ money: z.number(), tokens: z.number() }).optional(),
  /** Price of the answers, even if the configuration changes before they come; absent: there was none. */
  price: price.extend({ above: z.object({ promptTokens: z.number(), price }).optional() }).optional(),
  stage: z.enum(["reserving", "ready", "sending", "sent", "over"]),
  /** From 0: the same lines may be sent again if the provider has run none of them. */
  attempt: z.number(),
  fileId: z.string().optional(),
  batchId: z.string().optional(),
  /** Files at the provider, which nothing needs once the batch is over. */
  files: z.array(z.string()).optional(),
  /** The provider's batch may still run, and needs its file until it is over. */
  isGivenUp: z.boolean().optional(),
  /** Milliseconds since 1970. */
  sentMs: z.number().optional(),
});

export type Part = Readonly<z.output<typeof part>>;
export type PartName = Pick<Part, "model" | "number">;

/** It is unknown which lines the provider has. */
export class BrokenPart extends MillraceError {}

/** The reservation of a line in its budgets. */
export interface LineCost extends Amounts {
  /** Position of the line in the batch's index, from 0. */
  readonly index: number;
}

const nameOf = ({ model, number }: PartName): string => `part-${model}-${number}`;
const NAME = /^part-(\d+)-(\d+)\.json$/;
const BYTES_PER_COST = 3 * Float64Array.BYTES_PER_ELEMENT;

/** The sum of the reservations of lines without a result. */
export function sumOfOpen(costs: readonly LineCost[], isOpen: (index: number) => boolean): Amounts {
  let [money, tokens] = [0, 0];
  for (const cost of costs.filter(({ index }) => isOpen(index)))
    [money, tokens] = [money + cost.money, tokens + cost.tokens];
  return { money, tokens };
}

export class PartFiles {
  constructor(
    private readonly folders: BatchFolders,
    private readonly batchId: string,
  ) {}

  /** Path of a part's lines in the provider's form. */
  lines(of: PartName): string {
    return this.folders.part(this.batchId, `${nameOf(of)}.jsonl`);
  }

  /** All parts of the batch, in order. Throws BrokenPart. */
  async read(): Promise<readonly Part[]> {
    const names = await this.names();
    return await Promise.all(names.map((name) => this.one(name)));
  }

  /** Names in order; none if the batch's folder is gone. */
  async names(): Promise<readonly PartName[]> {
    const files = await readdir(this.#folder).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code === "ENOENT") return [];
      throw thrown;
    });
    return files
      .flatMap((file) => {
        const match = NAME.exec(file);
        return match === null ? [] : [{ model: Number(match[1]), number: Number(match[2]) }];
      })
      .sort((a, b) => a.model - b.model || a.number - b.number);
  }

  async one(of: PartName): Promise<Part> {
    const read = part.safeParse(parsed(await readFile(this.#path(of), "utf8")));
    if (read.success) return read.data;
    throw new BrokenPart("file_unreadable", `expected a part of a batch in ${nameOf(of)}.json, got something else`);
  }

  /** Replaces the file at once, and waits until it would survive a power cut. */
  async write(written: Part): Promise<void> {
    const path = this.#path(written);
    await writeFile(`${path}.new`, JSON.stringify(written, bigintsAsText), { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
    await this.#sync();
  }

  /** The reservation of each line of a part; undefined: unknown. */
  async costs(of: PartName): Promise<readonly LineCost[] | undefined> {
    const bytes = await readFile(this.#costs(of)).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code === "ENOENT") return undefined;
      throw thrown;
    });
    if (bytes === undefined) return undefined;
    const at = (i: number, field: number) => bytes.readDoubleLE(i * BYTES_PER_COST + 8 * field);
    const length = Math.floor(bytes.length / BYTES_PER_COST);
    return Array.from({ length }, (_, i) => ({ index: at(i, 0), money: at(i, 1), tokens: at(i, 2) }));
  }

  async writeCosts(of: PartName, costs: readonly LineCost[]): Promise<void> {
    const bytes = Buffer.alloc(costs.length * BYTES_PER_COST);
    for (const [i, { index, money, tokens }] of costs.entries()) {
      for (const [field, value] of [index, money, tokens].entries()) {
        bytes.writeDoubleLE(value, i * BYTES_PER_COST + 8 * field);
      }
    }
    await writeFile(this.#costs(of), bytes, { mode: 0o600, flush: true });
  }

  /** Removes the files that only an open part needs. */
  async removeLines(of: PartName): Promise<void> {
    await rm(this.lines(of), { force: true });
    await rm(this.#costs(of), { force: true });
  }

  /** Removes a part that was never sent and has no reservation. */
  async remove(of: PartName): Promise<void> {
    await rm(this.#path(of), { force: true });
    await this.#sync();
  }

  get #folder(): string {
    return dirname(this.#path({ model: 0, number: 0 }));
  }

  #path(of: PartName): string {
    return this.folders.part(this.batchId, `${nameOf(of)}.json`);
  }

  #costs(of: PartName): string {
    return this.folders.part(this.batchId, `${nameOf(of)}.costs`);
  }

  /** Makes the folder's names survive a power cut. */
  async #sync(): Promise<void> {
    const handle = await open(this.#folder, "r");
    await handle.sync().finally(() => handle.close());
  }
}

const bigintsAsText = (_: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
