/** What the engine's thread and the grammar thread say to each other; masks go through shared memory (mask-memory.ts). */
import type { MessagePort } from "node:worker_threads";
import type { ErrorRecord } from "../../core/errors.js";
import type { MaskShape } from "./mask-memory.js";

export interface GrammarThreadData {
  readonly modelPath: string;
  readonly shape: MaskShape;
  readonly memory: SharedArrayBuffer;
  readonly news: Int32Array<SharedArrayBuffer>;
  readonly port: MessagePort;
}

export interface OpenGrammar {
  readonly kind: "open";
  readonly requestId: number;
  /** Names the recipe: requests with the same one share a compiled grammar. */
  readonly key: string;
  /** What `recipeText` of src/text made. */
  readonly recipe: string;
  /** Of these, the model's own end an answer that is complete. */
  readonly stopTokenIds: readonly number[];
  /** Output so far. */
  readonly tokenIds: readonly number[];
}

export interface ComputeMasks {
  readonly kind: "masks";
  readonly requestId: number;
  readonly slot: number;
  readonly ticket: number;
  /** Output since the last message, to be accepted for good. */
  readonly tokenIds: readonly number[];
  /** Whether the slot has the mask of the next position from before. */
  readonly hasFirst: boolean;
  readonly draft: readonly number[];
}

export type ToGrammarThread = OpenGrammar | ComputeMasks | { readonly kind: "close"; readonly requestId: number };

export type FromGrammarThread =
  | {
      readonly kind: "opened";
      readonly requestId: number;
      /** The recipe's. */
      readonly key: string;
      readonly compileMs: number;
      readonly isFromCache: boolean;
    }
  /** The thread still stands, unless it says that it does not. */
  | {
      readonly kind: "failed";
      readonly requestId: number;
      readonly problem: string;
      /** What is wrong with the recipe, where that is known. */
      readonly record: ErrorRecord | undefined;
      /** Nothing that a request could have said otherwise. */
      readonly isOurs: boolean;
      readonly isBroken: boolean;
    };
