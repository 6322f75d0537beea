/**
 * The identity of the engine, settings and weights that answer under a model's name. It changes with every reload and
 * every change of a weight file, so that no kept answer outlives its model.
 */
import { createHash, randomUUID } from "node:crypto";
import { stat } from "node:fs/promises";
import { cpus } from "node:os";
import { packageVersion } from "../../core/package-root.js";
import { fingerprint, fingerprintOfFile } from "../supervision/build-cache.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { InstanceState, Upstream, UpstreamPool } from "../upstream/upstream.js";

/** States of instances that may answer a request. */
const ANSWERING: readonly InstanceState[] = ["ready", "suspect"];
/** A folder with more files than this is not a model. */
const MAX_FILES = 4096;

/** An instance's files when it last started. */
interface Start {
  readonly starts: number;
  /** Undefined while they are being read. */
  print: string | undefined;
}

interface Known {
  readonly spec: ModelSpec;
  /** The operator's `version` of the model, for changes that the gateway cannot see. */
  readonly word: string | undefined;
  /** Hash of the settings for starting its processes. */
  readonly settings: string;
  /** Undefined: not computed yet; null: unknown now. */
  version: string | null | undefined;
  /** The files of its own instances, also after they are unloaded. */
  lastPrint: string | undefined;
}

export class ModelVersions {
  readonly #models = new Map<string, Known>();
  readonly #starts = new Map<string, Start>();
  /** Differs in every run of the gateway: changes on attached servers between two runs are unknown. */
  readonly #run = randomUUID();
  readonly #endWatch: () => void;

  /** @param pool models by their own names */
  constructor(
    private readonly pool: UpstreamPool,
    private readonly printOf: (spec: ModelSpec) => Promise<string | undefined> = filesOf,
  ) {
    this.#endWatch = pool.onChange((upstream) => this.#look(upstream));
  }

  /** @param words the operator's `version` of each model */
  configure(specs: readonly ModelSpec[], words: ReadonlyMap<string, string>): void {
    const before = new Map(this.#models);
    this.#models.clear();
    for (const spec of specs) {
      const word = words.get(spec.name);
      const settings = hashOf(settingsOf(spec));
      const known = before.get(spec.name);
      const isReplaced = known !== undefined && known.settings !== settings;
      this.#models.set(spec.name, {
        spec,
        word,
        settings,
        version: undefined,
        lastPrint: isReplaced ? undefined : known?.lastPrint,
      });
      for (const upstream of this.pool.upstreams(spec.name)) {
        // The old processes may still answer, so the version is unknown until new ones have started.
        if (isReplaced) this.#starts.set(upstream.id, { starts: upstream.starts, print: undefined });
        else this.#look(upstream);
      }
    }
  }

  /** @returns undefined while the version is unknown, or while instances differ */
  of(model: string): string | undefined {
    const known = this.#models.get(model);
    if (known === undefined) return undefined;
    known.version ??= this.#version(known) ?? null;
    return known.version ?? undefined;
  }

  close(): void {
    this.#endWatch();
  }

  #look({ id, model, starts, state }: Upstream): void {
    const known = this.#models.get(model);
    if (known === undefined) return;
    known.version = undefined;
    const seen = this.#starts.get(id);
    if (seen?.starts === starts || (starts === 0 && state === "stopped")) return;
    const start: Start = { starts, print: undefined };
    this.#starts.set(id, start);
    const { spec, word } = known;
    // Without files to read and without the operator's version, each start counts as a new model.
    const unseen = word === undefined ? `${this.#run} ${id} ${starts}` : "";
    const print = isAttached(id, spec) ? Promise.resolve(unseen) : this.printOf(spec).then((files) => files ?? unseen);
    void print
      .catch(() => unseen)
      .then((found) => {
        start.print = found;
        const now = this.#models.get(model);
        if (now !== undefined) now.version = undefined;
      });
  }

  #version(known: Known): string | undefined {
    const { spec, settings } = known;
    const all = this.pool.upstreams(spec.name);
    // An attached server counts even while it is silent, so that its pauses do not change the version.
    const attached = all.filter(({ id }) => isAttached(id, spec)).map(({ id }) => this.#starts.get(id)?.print ?? null);
    const own = all.filter(({ id, state }) => !isAttached(id, spec) && ANSWERING.includes(state));
    const prints = new Set(own.map(({ id }) => this.#starts.get(id)?.print));
    if (prints.size > 1 || prints.has(undefined)) return undefined;
    const [print = known.lastPrint] = prints;
    if ((print === undefined && attached.length === 0) || attached.includes(null)) return undefined;
    known.lastPrint = print;
    return hashOf(settings, known.word ?? null, print ?? "", attached.toSorted());
  }
}

const isAttached = (id: string, { name }: ModelSpec): boolean => id.startsWith(`${name}-attached-`);

/** All parts of a model's description that may affect its answers. */
function settingsOf({ name, engine, program, options, args, env, attach = [] }: ModelSpec): unknown {
  const { maxNumSeqs, threads, kvCacheMemoryBytes, model, apiKey, ...rest } = options;
  const own = engine === "millrace" ? [packageVersion(), process.arch, cpus()[0]?.model] : [];
  const places = attach.map(({ url, modelName }) => [url, modelName]);
  return [name, engine, program, rest, args, env, places, ...own];
}

/**
 * The files in a model's description.
 * @returns undefined if the model is a name for the engine to download, not a local file or folder
 */
async function filesOf({ options, args, program }: ModelSpec): Promise<string | undefined> {
  const weights = await printOf(options.model);
  if (weights === undefined) return undefined;
  const named = [...(program ?? []).slice(1), ...args].map((arg) =>
    arg.slice(arg.startsWith("-") ? arg.indexOf("=") + 1 : 0),
  );
  const others = await Promise.all(
    named.map(async (path) => ((await isFile(path)) ? await fingerprintOfFile(path) : undefined)),
  );
  return hashOf(weights, others);
}

async function printOf(path: string): Promise<string | undefined> {
  const about = await stat(path).catch(() => undefined);
  if (about === undefined) return undefined;
  if (about.isFile()) return await fingerprintOfFile(path);
  const files = await fingerprint(path, MAX_FILES);
  return files === undefined ? undefined : JSON.stringify(files);
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() === true;
}

function hashOf(...facts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex");
}
