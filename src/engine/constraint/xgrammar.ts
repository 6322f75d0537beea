/**
 * Loads the grammar engine. Its package is a script that sets `exports`, in a file that its package.json calls a
 * module, so Node can neither import nor require it: the script is wrapped into a function of a module of its own,
 * which also gives it a console to write refusals to.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

interface Disposable {
  dispose(): void;
}

type TokenizerInfo = Disposable;
export type CompiledGrammar = Disposable;

export interface GrammarCompiler extends Disposable {
  compileGrammar(ebnf: string): Promise<CompiledGrammar>;
}

export interface GrammarMatcher extends Disposable {
  acceptToken(tokenId: number): boolean;
  getNextTokenBitmask(): Promise<Int32Array>;
  isTerminated(): boolean;
  rollBack(numTokens: number): void;
}

export interface Xgrammar {
  readonly TokenizerInfo: {
    /** @param vocabulary bytes of each token; empty for tokens without text */
    createTokenizerInfo(
      vocabulary: readonly Uint8Array[],
      kind: "raw",
      prependsSpace: boolean,
      vocabSize: number,
      stopTokenIds: readonly number[],
    ): Promise<TokenizerInfo>;
  };
  readonly GrammarCompiler: {
    createGrammarCompiler(tokenizer: TokenizerInfo, isCaching: boolean): Promise<GrammarCompiler>;
  };
  readonly GrammarMatcher: {
    createGrammarMatcher(grammar: CompiledGrammar, stopTokenIds: readonly number[]): Promise<GrammarMatcher>;
  };
}

type Script = (
  exports: object,
  require: NodeJS.Require,
  filename: string,
  console: Pick<Console, "log" | "error" | "warn">,
) => void;

/** @param onText receives printed text: the reason of a refusal */
export async function loadXgrammar(onText: (text: string) => void): Promise<Xgrammar> {
  const require = createRequire(import.meta.url);
  const filename = require.resolve("@mlc-ai/web-xgrammar");
  const source = `export default function (exports, require, __filename, console) {\nconst module = {};\n${readFileSync(filename, "utf8")}\n}`;
  const url = `data:text/javascript;base64,${Buffer.from(source).toString("base64")}`;
  const { default: run } = (await import(url)) as { readonly default: Script };
  const exports = {};
  const print = (...texts: readonly unknown[]) => onText(texts.join(" "));
  run(exports, createRequire(filename), filename, { log: print, error: print, warn: print });
  return exports as Xgrammar;
}
