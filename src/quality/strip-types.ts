/**
 * Takes the type annotations out of small TypeScript: of parameters, results, variables, `as`, type parameters and arguments, interfaces and
 * type aliases.
 * Not a compiler: what it does not know stays, and then fails to run.
 */

interface Token {
  readonly kind: "space" | "word" | "text" | "punctuation";
  readonly text: string;
}

/** Comments count as space, strings and templates as text; `=>` is one token. */
const TOKEN =
  /(\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/)|([\p{L}_$][\p{L}\p{N}_$]*)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|\d[\w.]*)|(=>|[\s\S])/gu;

function tokenize(source: string): Token[] {
  return [...source.matchAll(TOKEN)].map(([text, space, word, literal]) => ({
    kind: space !== undefined ? "space" : word !== undefined ? "word" : literal !== undefined ? "text" : "punctuation",
    text,
  }));
}

/** None of these stands within a declaration of variables, outside brackets. */
const STATEMENTS = new Set(["const", "let", "var", "return", "if", "for", "while", "throw", "of", "in"]);
const OPENING = "([{<";
const CLOSING = ")]}>";

/** @example stripTypes("function f(a: number): number { return a; }") // "function f(a) { return a; }" */
export function stripTypes(source: string): string {
  return new Stripper(tokenize(source)).run();
}

class Stripper {
  readonly #tokens: readonly Token[];
  #index = 0;
  #output = "";
  /** The last token written that is no space. */
  #last: Token | undefined;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  run(): string {
    while (this.#index < this.#tokens.length) this.#step();
    return this.#output;
  }

  #step(): void {
    const token = this.#tokens[this.#index] as Token;
    if (token.kind === "word") this.#word(token.text);
    else if (token.text === "(" && this.#isArrowHead()) this.#parameters();
    else if (token.text === "<" && this.#last?.kind === "word" && this.#isTypeArguments()) this.#skipType("(");
    else this.#copy();
  }

  #word(word: string): void {
    const startsStatement =
      this.#last === undefined || ";{}".includes(this.#last.text) || /\n/.test(this.#output.slice(-2));
    if (startsStatement && (word === "interface" || word === "type") && this.#peek(1)?.kind === "word")
      this.#declaration(word);
    else if (startsStatement && (word === "export" || word === "declare")) this.#index += 1;
    else if (word === "function") this.#function();
    else if (word === "const" || word === "let" || word === "var") this.#variable();
    else if (word === "as" && this.#isAfterValue()) this.#skipType(";,)]}");
    else this.#copy();
  }

  #copy(): void {
    const token = this.#tokens[this.#index++] as Token;
    this.#output += token.text;
    if (token.kind !== "space") this.#last = token;
  }

  /** The token `offset` tokens ahead, spaces not counted; 0 is the present one or the next that is no space. */
  #peek(offset: number): Token | undefined {
    let left = offset;
    for (let index = this.#index; index < this.#tokens.length; index++) {
      const token = this.#tokens[index] as Token;
      if (token.kind !== "space" && left-- === 0) return token;
    }
    return undefined;
  }

  #copySpaces(): void {
    while (this.#tokens[this.#index]?.kind === "space") this.#copy();
  }

  #isAfterValue(): boolean {
    const { kind, text } = this.#last ?? { kind: "punctuation", text: ";" };
    return (
      kind === "text" || ")]".includes(text) || (kind === "word" && !["return", "case", "of", "in"].includes(text))
    );
  }

  #function(): void {
    this.#copy();
    while (this.#index < this.#tokens.length && !"(<".includes((this.#tokens[this.#index] as Token).text)) this.#copy();
    if (this.#peek(0)?.text === "<") this.#skipType("(");
    if (this.#peek(0)?.text === "(") this.#parameters();
  }

  /** From "(" through ")" and the type of the result. */
  #parameters(): void {
    let depth = 0;
    do {
      const text = this.#tokens[this.#index]?.text ?? ")";
      if (depth === 1 && text === "?" && this.#peek(1)?.text === ":") this.#index += 1;
      else if (depth === 1 && text === ":") this.#skipType(",)=");
      else {
        if ("([{".includes(text)) depth += 1;
        if (")]}".includes(text)) depth -= 1;
        this.#copy();
      }
    } while (depth > 0 && this.#index < this.#tokens.length);
    if (this.#peek(0)?.text !== ":") return;
    this.#copySpaces();
    this.#skipType("{");
    if (this.#tokens[this.#index]?.text === "{") this.#output += " ";
    else if (this.#peek(0)?.text === "=>") this.#output += " ";
  }

  #variable(): void {
    this.#copy();
    for (let isMore = true; isMore; isMore = this.#copyPastComma()) {
      this.#copySpaces();
      if (this.#peek(0)?.kind !== "word") return;
      this.#copy();
      if (this.#peek(0)?.text === "!") this.#index += 1;
      if (this.#peek(0)?.text !== ":") continue;
      this.#skipType("=;,");
      if (this.#peek(0)?.text === "=") this.#output += " ";
    }
  }

  /** To the next variable of the same declaration, if there is one. */
  #copyPastComma(): boolean {
    let depth = 0;
    let end = this.#index;
    for (; end < this.#tokens.length; end++) {
      const { kind, text } = this.#tokens[end] as Token;
      if (depth === 0 && (text === "," || text === ";" || (kind === "word" && STATEMENTS.has(text)))) break;
      if ("([{".includes(text)) depth += 1;
      if (")]}".includes(text)) depth -= 1;
      if (depth < 0) break;
    }
    if (this.#tokens[end]?.text !== ",") return false;
    while (this.#index < end) this.#step();
    if (this.#index === end) this.#copy();
    return true;
  }

  /** `interface X {…}` or `type X = …;` */
  #declaration(word: string): void {
    if (word === "interface") {
      this.#skipTo("{");
      this.#skipBalanced();
    } else {
      this.#skipTo("=");
      this.#index += 1;
      this.#skipType(";\n");
      if (this.#peek(0)?.text === ";") this.#skipTo(";", 1);
    }
  }

  #skipTo(text: string, past = 0): void {
    while (this.#index < this.#tokens.length && this.#tokens[this.#index]?.text !== text) this.#index += 1;
    this.#index += past;
  }

  #skipBalanced(): void {
    let depth = 0;
    do {
      const text = this.#tokens[this.#index]?.text ?? "";
      if ("{".includes(text)) depth += 1;
      if ("}".includes(text)) depth -= 1;
      this.#index += 1;
    } while (depth > 0 && this.#index < this.#tokens.length);
  }

  /** From ":" or `as` on, up to one of `ends` or `=>` outside all brackets, or, for "\n" among them, the end of a line. */
  #skipType(ends: string): void {
    let depth = 0;
    let last = this.#tokens[this.#index]?.text === "<" ? "<" : "";
    if (last === "") this.#index += 1;
    for (; this.#index < this.#tokens.length; this.#index++) {
      const { kind, text } = this.#tokens[this.#index] as Token;
      if (kind === "space") {
        if (depth === 0 && ends.includes("\n") && last !== "" && text.includes("\n")) return;
        continue;
      }
      // An arrow after ")" is a function type's, and a brace that comes first the type's own.
      const isOwn = (text === "=>" && last === ")") || (text === "{" && last === "");
      if (depth === 0 && !isOwn && (text === "=>" || ends.includes(text))) return;
      if (OPENING.includes(text)) depth += 1;
      if (CLOSING.includes(text)) depth -= 1;
      if (depth < 0) return;
      last = text;
    }
  }

  /** Whether the "(" here opens the parameters of an arrow function. */
  #isArrowHead(): boolean {
    let depth = 0;
    let index = this.#index;
    for (; index < this.#tokens.length; index++) {
      const { text } = this.#tokens[index] as Token;
      if (text === "(") depth += 1;
      if (text === ")") depth -= 1;
      if (depth === 0) break;
    }
    const rest = this.#tokens.slice(index + 1).filter(({ kind }) => kind !== "space");
    if (rest[0]?.text === "=>") return true;
    return rest[0]?.text === ":" && isResultOfArrow(rest.slice(1));
  }

  /** Whether the "<" here opens the type arguments of a call. */
  #isTypeArguments(): boolean {
    let depth = 0;
    for (let index = this.#index; index < this.#tokens.length; index++) {
      const { kind, text } = this.#tokens[index] as Token;
      const isOperator = (text === "|" || text === "&") && this.#tokens[index - 1]?.text === text;
      if (isOperator || (kind === "punctuation" && !"<>,[]|&.{}:;?".includes(text))) return false;
      if (text === "<") depth += 1;
      if (text === ">") depth -= 1;
      if (depth === 0) return this.#tokens[index + 1]?.text === "(";
    }
    return false;
  }
}

/** Whether a type and then an arrow come here, rather than the other half of a condition. */
function isResultOfArrow(tokens: readonly Token[]): boolean {
  const open: string[] = [];
  for (const [index, { text }] of tokens.entries()) {
    if (open.length === 0 && text === "=>") return true;
    if ("([<".includes(text) || (text === "{" && (index === 0 || open.length > 0))) open.push(text);
    else if (open.length > 0 && ")]}>".includes(text)) open.pop();
    else if (open.length === 0 && "=;{),}]".includes(text)) return false;
    else if (text === ";" && open.at(-1) === "<") return false;
  }
  return false;
}
