/** By what keys a model's requests are routed: by tokens where there are instances to choose from and its prompts can be read, by text otherwise. */
import type { Logger } from "pino";
import type { ModelSpec } from "../upstream/model-spec.js";
import type { Upstream } from "../upstream/upstream.js";
import { type KeySource, TextKeySource } from "./key-source.js";
import { type PromptReader, TokenKeySource } from "./token-keys.js";

/** @returns undefined where the prompts of the model's instances cannot be told from its specification */
export type LoadPromptReader = (spec: ModelSpec) => Promise<PromptReader | undefined>;

export class PromptKeys {
  readonly #text = new TextKeySource();
  /** By model; without a reader: not there yet, or never. */
  readonly #readers = new Map<string, { read: PromptReader | undefined }>();

  constructor(
    private readonly load: LoadPromptReader,
    private readonly logger: Pick<Logger, "info" | "warn">,
  ) {}

  /** The model went, or is set up otherwise now. */
  forget(model: string): void {
    this.#readers.get(model)?.read?.end?.();
    this.#readers.delete(model);
  }

  sourceFor(spec: ModelSpec, upstreams: readonly Upstream[]): KeySource {
    const blockSize = upstreams.find(({ capacity }) => capacity.blockSize !== undefined)?.capacity.blockSize;
    if (spec.engine !== "millrace" || upstreams.length < 2 || blockSize === undefined) return this.#text;
    const read = (this.#readers.get(spec.name) ?? this.#open(spec)).read;
    return read === undefined ? this.#text : new TokenKeySource(read, blockSize, this.#text);
  }

  /** Requests go by their text meanwhile. */
  #open(spec: ModelSpec): { read: PromptReader | undefined } {
    const { name: model } = spec;
    const opened: { read: PromptReader | undefined } = { read: undefined };
    this.#readers.set(model, opened);
    this.load(spec).then(
      (read) => {
        opened.read = read;
        this.logger.info({ model }, read === undefined ? "routed by text" : "routed by tokens");
      },
      (thrown) => this.logger.warn({ model, err: thrown }, "routed by text: its tokenizer could not be read"),
    );
    return opened;
  }
}
