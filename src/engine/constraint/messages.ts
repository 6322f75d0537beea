/** Messages between the engine's thread and a grammar thread. Masks go through shared memory (mask-memory.ts). */
import type { MessagePort } from "node:worker_threads";
import type { ErrorRecord } from "../../core/errors.js";
import type { MaskShape } from "./mask-memory.js";

export interface GrammarThreadData {
  readonly modelPath: string;
  readonly shape: MaskShape;
  readonly memory: SharedArrayBuffer;
  readonly wakeWord: Int32Array<SharedArrayBuffer>;
  readonly port: MessagePort;
}

export interface OpenGrammar {
  readonly kind: "open";
  readonly requestId: number;
  /** Key of the recipe: requests with the same key share a compiled grammar. */
  readonly key: string;
  /** The recipe, as `recipeText` of src/text encodes it. */
  readonly recipe: string;
  /** Stop tokens of the request; the model's own end a complete answer. */
  readonly stopTokenIds: readonly number[];
  /** Output so far. */
  readonly tokenIds: readonly number[];
}

export interface ComputeMasks {
  readonly kind: "masks";
  readonly requestId: number;
  readonly slot: number;
  readonly ticket: number;
  /** Output since the last message, which is final. */
  readonly tokenIds: readonly number[];
  /** The slot already holds the mask of the next position. */
  readonly hasFirst: boolean;
  readonly draft: readonly number[];
}

export type ToGrammarThread = OpenGrammar | ComputeMasks | { readonly kind: "close"; readonly requestId: number };

export type FromGrammarThread =
  | {
      readonly kind: "opened";
      readonly requestId: number;
      /** Key of the recipe. */
      readonly key: string;
      readonly compileMs: number;
      readonly isFromCache: boolean;
    }
  /** The thread is usable afterwards, unless `isBroken` says otherwise. */
  | {
      readonly kind: "failed";
      readonly requestId: number;
      readonly problem: string;
      /** The fault of the recipe, if it is known. */
      readonly record: ErrorRecord | undefined;
      /** The fault is not in the request. */
      readonly isOurs: boolean;
      readonly isBroken: boolean;
    };
