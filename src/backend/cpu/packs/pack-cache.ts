/**
 * The folder of packed models: `<key>.pack` files, named by what the model's files hold, and `<identity>.ref` files that lead from paths,
 * sizes and dates to a key, so that a start need not read the model to find its pack. Every file appears whole, by renaming.
 */
import { createHash } from "node:crypto";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { PackCacheOptions } from "../../backend.js";
import { type PackTable, PackWriter, readPackTable } from "./pack-file.js";

export interface FoundPack {
  readonly path: string;
  readonly table: PackTable;
}

export interface CachedPack {
  readonly key: string;
  readonly model: string;
  readonly numBytes: number;
  readonly lastUsedMs: number;
  /** Written by this version's layout: of use to the next start. */
  readonly isCurrent: boolean;
}

const PACK = ".pack";
const REF = ".ref";
const TEMPORARY = ".tmp";
/** Who writes a temporary file: a process of a machine, or of a container with numbers of its own. */
const OWNER = /^[0-9a-f]{32}(?:\.ref)?\.(.+)\.(\d+)\.tmp$/;
/** A temporary file that nobody wrote to for so long is nobody's. */
const LEFT_AFTER_MS = 10 * 60_000;
/** Left free on the disk. */
const SPARE_BYTES = 2 ** 28;

export class PackCache {
  constructor(
    private readonly options: PackCacheOptions,
    readonly layoutVersion: number,
  ) {}

  /** The pack of these very files, by their paths, sizes and dates. Throws an Error where others could have forged one. */
  find(files: readonly string[]): FoundPack | undefined {
    this.#sweep();
    assertOurs(this.options.folder);
    try {
      return this.#use(readFileSync(join(this.options.folder, identityOf(files) + REF), "utf8"));
    } catch {
      // Nothing known about these files.
      return undefined;
    }
  }

  /** The pack of files with this content; the next `find` of `files` leads there. Throws what the file system throws. */
  findContent(contentHash: string, files: readonly string[]): FoundPack | undefined {
    const key = this.#keyOf(contentHash);
    const found = this.#use(key);
    if (found !== undefined) this.#refer(files, key);
    return found;
  }

  /** A writer of a pack of about `numBytes`, after making room for it. Throws what the file system throws, and an Error when it does not fit. */
  begin(contentHash: string, numBytes: number, numMatrices: number): PackWriter {
    const { folder, maxBytes } = this.options;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (numBytes > maxBytes) throw new Error(`expected at most ${maxBytes} bytes to keep, got ${numBytes}`);
    this.#makeRoom(numBytes);
    const { bavail, bsize } = statfsSync(folder);
    if (bavail * bsize < numBytes + SPARE_BYTES) {
      throw new Error(`expected ${numBytes + SPARE_BYTES} bytes free in ${folder}, got ${bavail * bsize}`);
    }
    return new PackWriter(join(folder, this.#keyOf(contentHash) + ownSuffix()), numMatrices);
  }

  /** Gives a finished pack its name. */
  commit(writer: PackWriter, contentHash: string, files: readonly string[]): FoundPack | undefined {
    const key = this.#keyOf(contentHash);
    renameSync(writer.path, join(this.options.folder, key + PACK));
    this.#refer(files, key);
    return this.#use(key);
  }

  /** Longest unused last. */
  list(): CachedPack[] {
    const packs = this.#names(PACK).flatMap((name) => {
      const path = join(this.options.folder, name);
      const stats = statSync(path, { throwIfNoEntry: false });
      if (stats === undefined) return [];
      const table = readPackTable(path);
      return {
        key: name.slice(0, -PACK.length),
        model: table?.model ?? "(damaged)",
        numBytes: stats.size,
        lastUsedMs: stats.mtimeMs,
        isCurrent: table?.layoutVersion === this.layoutVersion,
      };
    });
    return packs.sort((a, b) => b.lastUsedMs - a.lastUsedMs);
  }

  /** Removes the packs of a model, by its name or the start of a key; all of them without a name. Starts that use one keep it until they end. */
  clear(name?: string): CachedPack[] {
    const cleared = this.list().filter(
      ({ key, model }) => name === undefined || model === name || (name.length >= 8 && key.startsWith(name)),
    );
    for (const { key } of cleared) this.#remove(key + PACK);
    this.#sweep();
    return cleared;
  }

  #keyOf(contentHash: string): string {
    return createHash("sha256").update(`${contentHash} ${this.layoutVersion}`).digest("hex").slice(0, 32);
  }

  /** The pack, whole and of this layout, marked as used now. */
  #use(key: string): FoundPack | undefined {
    if (!/^[0-9a-f]{32}$/.test(key)) return undefined;
    const path = join(this.options.folder, key + PACK);
    if (!isOurs(path)) return undefined;
    const table = readPackTable(path);
    if (table?.layoutVersion !== this.layoutVersion || this.#keyOf(table.contentHash) !== key) return undefined;
    try {
      utimesSync(path, new Date(), new Date());
    } catch {
      // A folder that is only read: nobody removes anything there either.
    }
    return { path, table };
  }

  #refer(files: readonly string[], key: string): void {
    const path = join(this.options.folder, identityOf(files) + REF);
    const aside = path + ownSuffix();
    try {
      writeFileSync(aside, key, { mode: 0o600 });
      renameSync(aside, path);
    } catch {
      // A full disk, or a folder that is only read: the pack serves all the same, and the next start finds it by its content again.
      rmSync(aside, { force: true });
    }
  }

  #makeRoom(numBytes: number): void {
    this.#sweep();
    const packs = this.list();
    let total = packs.reduce((sum, pack) => sum + pack.numBytes, 0);
    for (const pack of packs.reverse()) {
      if (total + numBytes <= this.options.maxBytes) return;
      this.#remove(pack.key + PACK);
      total -= pack.numBytes;
    }
  }

  /** Removes what a killed process left behind, and references to packs that are gone. */
  #sweep(): void {
    for (const name of this.#names("")) {
      try {
        if (name.endsWith(TEMPORARY) ? this.#isLeftBehind(name) : name.endsWith(REF) && !this.#leadsSomewhere(name))
          this.#remove(name);
      } catch {
        // A folder that is only read: it stays as it is.
      }
    }
  }

  #isLeftBehind(name: string): boolean {
    const idleMs = Date.now() - statSync(join(this.options.folder, name)).mtimeMs;
    const [, host, pid] = OWNER.exec(name) ?? [];
    if (idleMs > LEFT_AFTER_MS) return true;
    if (host !== hostname()) return false;
    // Our own number, in a container always the same, may have been another process's before.
    return Number(pid) === process.pid ? idleMs > process.uptime() * 1000 : !isRunning(Number(pid));
  }

  #leadsSomewhere(name: string): boolean {
    const key = readFileSync(join(this.options.folder, name), "utf8");
    return statSync(join(this.options.folder, key + PACK), { throwIfNoEntry: false }) !== undefined;
  }

  #remove(name: string): void {
    rmSync(join(this.options.folder, name), { force: true });
  }

  #names(suffix: string): string[] {
    try {
      return readdirSync(this.options.folder).filter((name) => name.endsWith(suffix));
    } catch {
      // No folder yet.
      return [];
    }
  }
}

/** Of the files that this process writes aside. */
function ownSuffix(): string {
  return `.${hostname()}.${process.pid}${TEMPORARY}`;
}

/** Whether only this user and root can write it. The group counts as the user's where it is the one that the process runs as. */
function isOurs(path: string): boolean {
  const user = process.getuid?.();
  const stats = statSync(path, { throwIfNoEntry: false });
  // What is not there has nobody's bytes in it; and systems without users have other means.
  if (user === undefined || stats === undefined) return true;
  const isWrittenByGroup = (stats.mode & 0o020) !== 0 && stats.gid !== process.getegid?.();
  return (stats.uid === user || stats.uid === 0) && (stats.mode & 0o002) === 0 && !isWrittenByGroup;
}

/** Whoever can write a pack decides what the model answers. */
function assertOurs(folder: string): void {
  if (isOurs(folder)) return;
  throw new Error(`expected a folder that only this user can write, got ${folder}; chmod 700 makes it one`);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

function identityOf(files: readonly string[]): string {
  const hash = createHash("sha256");
  for (const file of files) {
    const { size, mtimeNs } = statSync(file, { bigint: true });
    hash.update(`${realpathSync(file)}\0${size}\0${mtimeNs}\0`);
  }
  return hash.digest("hex").slice(0, 32);
}
