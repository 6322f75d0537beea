/**
 * Chooses a model's routing keys: by tokens if there are several instances and its prompts can be tokenized here, by
 * text otherwise.
 */
import type { Logger } from "pino";
import { saltOfScope } from "../../core/cache-scope.js";
import { scopedSalt } from "../../text/block-hash.js";
import type { EngineName } from "../upstream/engine.js";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { Upstream } from "../upstream/upstream.js";
import { type KeySource, TextKeySource } from "./key-source.js";
import { type PromptReader, type SaltOf, TokenKeySource } from "./token-keys.js";

/** @returns undefined if the specification does not determine how the instances build their prompts */
export type LoadPromptReader = (spec: ModelSpec) => Promise<PromptReader | undefined>;

/** Engines that report their cache, with the salt under which they store a request's prefixes. */
const SALTS: Readonly<Partial<Record<EngineName, SaltOf>>> = {
  millrace: scopedSalt,
  vllm: (scope, own) => (scope === "" ? own : saltOfScope(scope, own)),
};

export class PromptKeys {
  readonly #text = new TextKeySource();
  /** Readers by model; `read` is undefined while the reader loads, or if there is none. */
  readonly #readers = new Map<string, { read: PromptReader | undefined }>();

  constructor(
    private readonly load: LoadPromptReader,
    private readonly logger: Pick<Logger, "info" | "warn" | "error">,
  ) {}

  /** Drops the reader of a model that was removed or reconfigured. */
  forget(model: string): void {
    this.#readers.get(model)?.read?.end?.();
    this.#readers.delete(model);
  }

  sourceFor(spec: ModelSpec, upstreams: readonly Upstream[]): KeySource {
    const blockSize = upstreams.find(({ capacity }) => capacity.blockSize !== undefined)?.capacity.blockSize;
    const saltOf = SALTS[spec.engine];
    if (saltOf === undefined || upstreams.length < 2 || blockSize === undefined) return this.#text;
    const read = (this.#readers.get(spec.name) ?? this.#open(spec)).read;
    return read === undefined ? this.#text : new TokenKeySource(read, blockSize, this.#text, saltOf);
  }

  /** Loads a reader in the background; until then requests are routed by text. */
  #open(spec: ModelSpec): { read: PromptReader | undefined } {
    const { name: model } = spec;
    const opened: { read: PromptReader | undefined } = { read: undefined };
    this.#readers.set(model, opened);
    this.load(spec).then(
      (read) => {
        opened.read = read && this.#safe(read, model);
        this.logger.info({ model }, read === undefined ? "routed by text" : "routed by tokens");
      },
      (thrown) => this.logger.warn({ model, err: thrown }, "routed by text: the model's tokenizer could not be read"),
    );
    return opened;
  }

  /** A reader whose failures cost a request only its token keys; the first failure is logged. */
  #safe(read: PromptReader, model: string): PromptReader {
    let hasFailed = false;
    const safe: PromptReader = async (path, body, owner) => {
      try {
        return await read(path, body, owner);
      } catch (thrown) {
        if (!hasFailed) this.logger.error({ model, err: thrown }, "routed by text: a prompt could not be read");
        hasFailed = true;
        return undefined;
      }
    };
    return Object.assign(safe, read.end && { end: read.end });
  }
}
