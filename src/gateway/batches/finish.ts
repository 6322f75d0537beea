/** Writes the files of a finished batch from the log of its results. After a crash, this starts again. */
import { createHash } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import type { BatchFolders } from "./folders.js";
import type { BatchRecord, FileRecord } from "./record.js";
import { readEntries } from "./result-log.js";

const BUFFER_BYTES = 1024 * 1024;

interface BatchFiles {
  readonly output: FileRecord | undefined;
  readonly error: FileRecord | undefined;
}

interface FinishTerms {
  readonly nowSeconds: number;
  /** Life of the files in seconds, unless the batch states one. */
  readonly keptSeconds: number;
}

/**
 * OpenAI's batches have a file of answers and one of errors, Anthropic's one of all results. A file without lines is
 * not made.
 * @param numLines results whose index is not below it are left out
 */
export async function writeBatchFiles(
  folders: BatchFolders,
  batch: BatchRecord,
  numLines: number,
  { nowSeconds, keptSeconds }: FinishTerms,
): Promise<BatchFiles> {
  const [output, error] = [
    new PartFile(folders, fileId(batch, "output")),
    new PartFile(folders, fileId(batch, "error")),
  ];
  const isWritten = new Uint8Array(numLines);
  try {
    await readEntries(folders.log(batch.id), async ({ index, outcome, json }) => {
      if (index >= numLines || isWritten[index] === 1) return;
      isWritten[index] = 1;
      const isOutput = outcome === "succeeded" || batch.kind === "anthropic";
      await (isOutput ? output : error).line(json);
    });
    const recordOf = (file: PartFile, what: string): FileRecord => ({
      id: file.id,
      tenant: batch.owner.tenant,
      filename: `${batch.id}_${what}.jsonl`,
      purpose: batch.kind === "openai" ? "batch_output" : "message_results",
      bytes: file.numBytes,
      createdAt: nowSeconds,
      expiresAt: nowSeconds + (batch.outputExpiresAfter ?? keptSeconds),
    });
    return {
      output: (await output.finish()) ? recordOf(output, "output") : undefined,
      error: (await error.finish()) ? recordOf(error, "error") : undefined,
    };
  } catch (thrown) {
    await output.drop();
    await error.drop();
    throw thrown;
  }
}

/** The same in every attempt, so that a repeated finish makes no second file. */
function fileId({ id }: BatchRecord, what: "output" | "error"): string {
  return `file-${createHash("sha256").update(`${what} of ${id}`).digest("hex").slice(0, 24)}`;
}

class PartFile {
  #handle: FileHandle | undefined;
  #pending: Buffer[] = [];
  #numPending = 0;
  numBytes = 0;

  constructor(
    private readonly folders: BatchFolders,
    readonly id: string,
  ) {}

  async line(json: Buffer): Promise<void> {
    this.#pending.push(json, Buffer.from("\n"));
    this.#numPending += json.length + 1;
    if (this.#numPending >= BUFFER_BYTES) await this.#flush();
  }

  /** @returns whether there is a file */
  async finish(): Promise<boolean> {
    if (this.#numPending > 0) await this.#flush();
    if (this.#handle === undefined) return false;
    await this.#handle.sync();
    await this.#handle.close();
    await rename(this.folders.unfinished(this.id), this.folders.file(this.id));
    return true;
  }

  async drop(): Promise<void> {
    await this.#handle?.close().catch(() => {});
    await rm(this.folders.unfinished(this.id), { force: true });
  }

  async #flush(): Promise<void> {
    this.#handle ??= await open(this.folders.unfinished(this.id), "w", 0o600);
    const bytes = Buffer.concat(this.#pending);
    await this.#handle.appendFile(bytes);
    this.numBytes += bytes.length;
    [this.#pending, this.#numPending] = [[], 0];
  }
}
