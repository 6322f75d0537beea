/** Says whether texts are under a grammar, with the grammar engine itself and a vocabulary of single bytes. */
import { type CompiledGrammar, loadXgrammar } from "../../src/engine/constraint/xgrammar.js";
import { SIGNAL_TOKENS } from "../../src/text/grammar/string-length.js";

const STOP_ID = 256;

/** @example const accepts = await grammarMatcher(); await accepts('root ::= "a"', "a") // true */
export async function grammarMatcher(): Promise<(grammar: string, text: string) => Promise<boolean>> {
  let printed = "";
  const xgrammar = await loadXgrammar((text) => {
    printed += text;
  });
  const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  const tokens = [...bytes, new Uint8Array(), ...SIGNAL_TOKENS];
  const tokenizer = await xgrammar.TokenizerInfo.createTokenizerInfo(tokens, "raw", false, tokens.length, [STOP_ID]);
  const compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(tokenizer, false);
  let last: { readonly grammar: string; readonly compiled: CompiledGrammar } | undefined;
  const compile = async (grammar: string): Promise<CompiledGrammar> => {
    if (last?.grammar === grammar) return last.compiled;
    last?.compiled.dispose();
    last = undefined;
    const compiled = await compiler.compileGrammar(grammar).catch((thrown: unknown) => {
      throw new Error(`expected a grammar, got ${printed.slice(-400)} ${String(thrown)}\n${grammar.slice(0, 2000)}`);
    });
    last = { grammar, compiled };
    return compiled;
  };
  return async (grammar, text) => {
    const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(await compile(grammar), [STOP_ID]);
    const isWhole = [...Buffer.from(text)].every((byte) => matcher.acceptToken(byte)) && matcher.acceptToken(STOP_ID);
    matcher.dispose();
    return isWhole;
  };
}
