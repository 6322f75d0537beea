/** The paths of files and batches on the disk. Only the gateway's user can read them. */
import { copyFile, link, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

export class BatchFolders {
  readonly #files: string;
  readonly #runs: string;
  /** Open cleanup tasks of finished parts. */
  readonly cleanups: string;

  constructor(readonly root: string) {
    this.#files = join(root, "files");
    this.#runs = join(root, "runs");
    this.cleanups = join(root, "cleanups");
  }

  async create(): Promise<void> {
    await mkdir(this.#files, { recursive: true, mode: 0o700 });
    await mkdir(this.#runs, { recursive: true, mode: 0o700 });
    await mkdir(this.cleanups, { recursive: true, mode: 0o700 });
  }

  /** Content of a file. */
  file(id: string): string {
    return join(this.#files, id);
  }

  /** A file that is being written. */
  unfinished(id: string): string {
    return join(this.#files, `${id}.part`);
  }

  /** Lines of a batch that is not over, the index of these lines, and their results. */
  input(batchId: string): string {
    return join(this.#runs, batchId, "input.jsonl");
  }

  index(batchId: string): string {
    return join(this.#runs, batchId, "index");
  }

  log(batchId: string): string {
    return join(this.#runs, batchId, "results");
  }

  /** A file about lines that a provider's batch endpoint answers. */
  part(batchId: string, name: string): string {
    return join(this.#runs, batchId, name);
  }

  async createRun(batchId: string): Promise<void> {
    await mkdir(join(this.#runs, batchId), { recursive: true, mode: 0o700 });
  }

  /** Links a file into a batch's folder, so that the batch keeps its input if the file is deleted. */
  async adoptInput(batchId: string, fileId: string): Promise<void> {
    await this.createRun(batchId);
    const [from, to] = [this.file(fileId), this.input(batchId)];
    await link(from, to).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code === "EEXIST") return;
      // Not every file system has hard links.
      if (thrown.code === "ENOENT") throw thrown;
      return copyFile(from, to);
    });
  }

  async removeFile(id: string): Promise<void> {
    await rm(this.file(id), { force: true });
  }

  async removeRun(batchId: string): Promise<void> {
    await rm(join(this.#runs, batchId), { recursive: true, force: true });
  }

  /**
   * Removes the remains of a killed process: unfinished uploads, and files and runs that the database does not know.
   */
  async sweep(isFile: (id: string) => boolean, isRun: (id: string) => boolean): Promise<void> {
    for (const name of await readdir(this.#files)) {
      if (!isFile(name)) await rm(join(this.#files, name), { force: true });
    }
    for (const name of await readdir(this.#runs)) if (!isRun(name)) await this.removeRun(name);
  }
}
