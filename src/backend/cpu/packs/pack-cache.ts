/**
 * Cache folder of packed models. `<key>.pack` files are named by the contents of the model's files. `<identity>.ref`
 * files map the paths, sizes and dates of the model's files to a key, so that a start finds its pack without reading
 * the model. Files appear atomically, by rename.
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
import type { PackCacheOptions, WeightSet } from "../../backend.js";
import { type PackTable, PackWriter, readPackTable } from "./pack-file.js";

/** Weights that a pack was made of, or is to be. */
type PackedWeights = Pick<WeightSet, "files" | "part">;

export interface FoundPack {
  readonly path: string;
  readonly table: PackTable;
}

export interface CachedPack {
  readonly key: string;
  readonly model: string;
  readonly numBytes: number;
  readonly lastUsedMs: number;
  /** Whether the pack has this version's layout, so that the next start can use it. */
  readonly isCurrent: boolean;
}

const PACK = ".pack";
const REF = ".ref";
const TEMPORARY = ".tmp";
/** Owner in a temporary file's name: host name and process id. Containers have process ids of their own. */
const OWNER = /^[0-9a-f]{32}(?:\.ref)?\.(.+)\.(\d+)\.tmp$/;
/** A temporary file without a write for this long is abandoned. */
const ABANDONED_AFTER_MS = 10 * 60_000;
/** Disk space to leave free. */
const SPARE_BYTES = 2 ** 28;

export class PackCache {
  constructor(
    private readonly options: PackCacheOptions,
    readonly layoutVersion: number,
  ) {}

  get minModelBytes(): number | undefined {
    return this.options.minModelBytes;
  }

  /**
   * Finds the pack of these weights by the paths, sizes and dates of their files. Throws an Error if other users can
   * write to the folder.
   */
  find(weights: PackedWeights): FoundPack | undefined {
    this.#sweep();
    assertOurs(this.options.folder);
    try {
      return this.#use(readFileSync(join(this.options.folder, identityOf(weights) + REF), "utf8"));
    } catch {
      // These files have no reference yet.
      return undefined;
    }
  }

  /**
   * Finds the pack of weights with this content, and makes the next `find(weights)` lead to it. Throws file system
   * errors.
   */
  findContent(contentHash: string, weights: PackedWeights): FoundPack | undefined {
    const key = this.#keyOf(contentHash);
    const found = this.#use(key);
    if (found !== undefined) this.#refer(weights, key);
    return found;
  }

  /**
   * Makes room for a pack of about `numBytes` and returns its writer. Throws file system errors, and an Error if the
   * pack does not fit.
   */
  begin(contentHash: string, numBytes: number, numMatrices: number): PackWriter {
    const { folder, maxBytes } = this.options;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (numBytes > maxBytes) throw new Error(`expected a pack of at most ${maxBytes} bytes, got ${numBytes}`);
    this.#makeRoom(numBytes);
    const { bavail, bsize } = statfsSync(folder);
    if (bavail * bsize < numBytes + SPARE_BYTES) {
      throw new Error(`expected ${numBytes + SPARE_BYTES} bytes free in ${folder}, got ${bavail * bsize}`);
    }
    return new PackWriter(join(folder, this.#keyOf(contentHash) + ownSuffix()), numMatrices);
  }

  /** Renames a finished pack to its key and maps `weights` to it. */
  commit(writer: PackWriter, contentHash: string, weights: PackedWeights): FoundPack | undefined {
    const key = this.#keyOf(contentHash);
    renameSync(writer.path, join(this.options.folder, key + PACK));
    this.#refer(weights, key);
    return this.#use(key);
  }

  /** Lists all packs, the most recently used first. */
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

  /**
   * Removes the packs with this model name or key prefix (8 characters or more), or all. Processes that have mapped a
   * pack keep it.
   */
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

  /** Returns the pack if it is complete and of this layout, and marks it as used now. */
  #use(key: string): FoundPack | undefined {
    if (!/^[0-9a-f]{32}$/.test(key)) return undefined;
    const path = join(this.options.folder, key + PACK);
    if (!isOurs(path)) return undefined;
    const table = readPackTable(path);
    if (table?.layoutVersion !== this.layoutVersion || this.#keyOf(table.contentHash) !== key) return undefined;
    try {
      utimesSync(path, new Date(), new Date());
    } catch {
      // A read-only folder; nothing is evicted from it either.
    }
    return { path, table };
  }

  #refer(weights: PackedWeights, key: string): void {
    const path = join(this.options.folder, identityOf(weights) + REF);
    const temporary = path + ownSuffix();
    try {
      writeFileSync(temporary, key, { mode: 0o600 });
      renameSync(temporary, path);
    } catch {
      // A full disk or a read-only folder. The pack serves anyway, and the next start finds it by content.
      rmSync(temporary, { force: true });
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

  /** Removes temporary files of killed processes, and references to removed packs. */
  #sweep(): void {
    for (const name of this.#names("")) {
      try {
        if (name.endsWith(TEMPORARY) ? this.#isAbandoned(name) : name.endsWith(REF) && !this.#leadsSomewhere(name))
          this.#remove(name);
      } catch {
        // A read-only folder stays as it is.
      }
    }
  }

  #isAbandoned(name: string): boolean {
    const idleMs = Date.now() - statSync(join(this.options.folder, name)).mtimeMs;
    const [, host, pid] = OWNER.exec(name) ?? [];
    if (idleMs > ABANDONED_AFTER_MS) return true;
    if (host !== hostname()) return false;
    // Our own process id may have belonged to an earlier process: in a container it is always the same.
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
      // The folder does not exist yet.
      return [];
    }
  }
}

/** Suffix of the temporary files that this process writes. */
function ownSuffix(): string {
  return `.${hostname()}.${process.pid}${TEMPORARY}`;
}

/** Whether only this user and root can write to `path`. Write access of the process's own group is accepted. */
function isOurs(path: string): boolean {
  const user = process.getuid?.();
  const stats = statSync(path, { throwIfNoEntry: false });
  // A missing file holds nobody's bytes, and systems without user ids have other protections.
  if (user === undefined || stats === undefined) return true;
  const isWrittenByGroup = (stats.mode & 0o020) !== 0 && stats.gid !== process.getegid?.();
  return (stats.uid === user || stats.uid === 0) && (stats.mode & 0o002) === 0 && !isWrittenByGroup;
}

/** Throws if another user can write to the folder: a forged pack would change the model's answers. */
function assertOurs(folder: string): void {
  if (isOurs(folder)) return;
  throw new Error(`expected a folder that only this user can write to, got ${folder}; run chmod 700 on it`);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

function identityOf({ files, part }: PackedWeights): string {
  const hash = createHash("sha256");
  if (part !== undefined) hash.update(`${part}\0`);
  for (const file of files) {
    const { size, mtimeNs } = statSync(file, { bigint: true });
    hash.update(`${realpathSync(file)}\0${size}\0${mtimeNs}\0`);
  }
  return hash.digest("hex").slice(0, 32);
}
