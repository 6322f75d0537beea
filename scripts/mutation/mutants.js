/** The mutants of a TypeScript file: small changes of its code, each of which a test should notice. */
import { SyntaxKind } from "typescript/unstable/ast";
import {
  isArrowFunction,
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isExpressionStatement,
  isForStatement,
  isIfStatement,
  isImportDeclaration,
  isNumericLiteral,
  isPostfixUnaryExpression,
  isPrefixUnaryExpression,
  isPropertyAccessExpression,
  isReturnStatement,
  isThrowStatement,
  isTypeNode,
  isWhileStatement,
} from "typescript/unstable/ast/is";

const BOUNDARIES = { "<": "<=", "<=": "<", ">": ">=", ">=": ">" };
const NEGATIONS = { "<": ">=", "<=": ">", ">": "<=", ">=": "<", "===": "!==", "!==": "===" };
const ARITHMETIC = {
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "**": "*",
  "<<": ">>",
  ">>": "<<",
  "&": "|",
  "|": "&",
};
const ASSIGNMENTS = { "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "??=": "=" };
const LOGICAL = { "&&": "||", "||": "&&" };
const CALLS = { min: "max", max: "min", floor: "ceil", ceil: "floor", some: "every", every: "some" };
const LINKS = ["filter", "sort", "reverse", "slice"];

const TEXTS = [SyntaxKind.StringLiteral, SyntaxKind.TemplateExpression, SyntaxKind.NoSubstitutionTemplateLiteral];
const JUMPS = [SyntaxKind.ContinueStatement, SyntaxKind.BreakStatement];
const SKIPPED = [SyntaxKind.InterfaceDeclaration, SyntaxKind.TypeAliasDeclaration];

const operatorOf = (node, text) => (isBinaryExpression(node) ? text(node.operatorToken) : undefined);

/** Swaps an operator, such as `a + b` → `a - b`, for the operators in `changes`. */
function swapOperator(changes) {
  return (node, text) => {
    const swapped = changes[operatorOf(node, text)];
    return swapped === undefined ? [] : [`${text(node.left)} ${swapped} ${text(node.right)}`];
  };
}

const isMethodCall = (node) => isCallExpression(node) && isPropertyAccessExpression(node.expression);

/** The function around a return statement, or the arrow function with this expression as its body. */
function functionOf(node) {
  let each = node.parent;
  while (each !== undefined && each.parameters === undefined) each = each.parent;
  return each;
}

function droppedValue(value, owner, text) {
  const isBoolean = owner?.type !== undefined && text(owner.type) === "boolean";
  return (isBoolean ? ["true", "false"] : ["undefined"]).filter((dropped) => dropped !== text(value));
}

const isConditionOf = (parent, node) =>
  ((isIfStatement(parent) || isWhileStatement(parent)) && parent.expression === node) ||
  ((isConditionalExpression(parent) || isForStatement(parent)) && parent.condition === node);

/** Replacements of an expression as text, by the mutator's name. `text` is the source of a node. */
const EXPRESSION_MUTATORS = {
  "comparison boundary": swapOperator(BOUNDARIES),
  "comparison negated": swapOperator(NEGATIONS),
  "arithmetic swapped": (node, text) => {
    const isText = isBinaryExpression(node) && [node.left, node.right].some(({ kind }) => TEXTS.includes(kind));
    return isText ? [] : swapOperator(ARITHMETIC)(node, text);
  },
  "assignment swapped": swapOperator(ASSIGNMENTS),
  "step reversed": (node, text) => {
    if (!isPrefixUnaryExpression(node) && !isPostfixUnaryExpression(node)) return [];
    if (node.operator === SyntaxKind.PlusPlusToken) return [text(node).replace("++", "--")];
    return node.operator === SyntaxKind.MinusMinusToken ? [text(node).replace("--", "++")] : [];
  },
  "condition forced": (node, text) => {
    if (!isConditionOf(node.parent, node)) return [];
    // A loop whose condition always holds never ends, which tests nothing.
    const mayBeTrue = isIfStatement(node.parent) || isConditionalExpression(node.parent);
    return (mayBeTrue ? ["true", "false"] : ["false"]).filter((forced) => forced !== text(node));
  },
  "logical operator swapped": swapOperator(LOGICAL),
  "operand dropped": (node, text) =>
    ["&&", "||", "??"].includes(operatorOf(node, text)) ? [text(node.left), text(node.right)] : [],
  "negation removed": (node, text) =>
    isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken ? [text(node.operand)] : [],
  "sign removed": (node, text) =>
    isPrefixUnaryExpression(node) && node.operator === SyntaxKind.MinusToken ? [text(node.operand)] : [],
  "number ± 1": (node, text) =>
    isNumericLiteral(node) && node.parent.name !== node ? [`${text(node)} + 1`, `${text(node)} - 1`] : [],
  "boolean flipped": ({ kind }) => {
    if (kind === SyntaxKind.TrueKeyword) return ["false"];
    return kind === SyntaxKind.FalseKeyword ? ["true"] : [];
  },
  "value dropped": (node, text) => {
    if (isReturnStatement(node.parent)) return droppedValue(node, functionOf(node), text);
    const isBody = isArrowFunction(node.parent) && node.parent.body === node && !isBlock(node);
    return isBody ? droppedValue(node, node.parent, text) : [];
  },
  "call swapped": (node, text) => {
    if (!isMethodCall(node)) return [];
    const { expression, name } = node.expression;
    const swapped = Object.hasOwn(CALLS, text(name)) ? CALLS[text(name)] : undefined;
    return swapped === undefined ? [] : [`${text(expression)}.${swapped}(${node.arguments.map(text).join(", ")})`];
  },
  "link dropped": (node, text) =>
    isMethodCall(node) && LINKS.includes(text(node.expression.name)) ? [text(node.expression.expression)] : [],
};

const isRemovable = (node) =>
  isExpressionStatement(node) ||
  isThrowStatement(node) ||
  JUMPS.includes(node.kind) ||
  (isReturnStatement(node) && node.expression === undefined);

/** Name of the innermost method, function or constant around a node, for readers. */
function placeOf(node, text) {
  for (let each = node; each.parent !== undefined; each = each.parent) {
    if (each.kind === SyntaxKind.Constructor) return "constructor";
    const isNamed = each.body !== undefined || each.parent.kind === SyntaxKind.SourceFile;
    if (isNamed && each.name !== undefined) return text(each.name);
    const declared = each.declarationList?.declarations[0];
    if (declared !== undefined && each.parent.kind === SyntaxKind.SourceFile) return text(declared.name);
    if (each.kind === SyntaxKind.PropertyDeclaration) return text(each.name);
  }
  return "";
}

/**
 * @param {import("typescript/unstable/ast").SourceFile} file
 * @returns every mutant of the file, in order: `to` replaces `start` to `end` of the text, and is "" for a removed
 *   statement; `occurrence` distinguishes equal mutants of the same place
 */
export function mutantsOf(file) {
  const text = (node) => file.text.slice(node.getStart(file), node.end);
  const mutants = [];
  const seen = new Map();
  const add = (node, mutator, to) => {
    const [start, end, from, place] = [node.getStart(file), node.end, text(node), placeOf(node, text)];
    const name = [place, mutator, from, to].join("\n");
    const occurrence = (seen.get(name) ?? 0) + 1;
    seen.set(name, occurrence);
    const line = file.text.slice(0, start).split("\n").length;
    mutants.push({ id: mutants.length, line, place, mutator, from, to, occurrence, start, end });
  };
  const visit = (node) => {
    if (isTypeNode(node) || isImportDeclaration(node) || SKIPPED.includes(node.kind)) return;
    if (isRemovable(node)) add(node, "statement removed", "");
    for (const [mutator, changesOf] of Object.entries(EXPRESSION_MUTATORS)) {
      for (const to of changesOf(node, text)) add(node, mutator, to);
    }
    node.forEachChild(visit);
  };
  file.forEachChild(visit);
  return mutants;
}

/**
 * The file with all of its mutants, each inactive unless the global function `mutant(id)` selects it.
 * @returns TypeScript if the source is: the edits only use syntax common to both languages
 */
export function instrument(source, mutants) {
  const sites = new Map();
  for (const each of mutants) {
    const range = `${each.start} ${each.end}`;
    sites.set(range, [...(sites.get(range) ?? []), each]);
  }
  const edits = [...sites.values()].flatMap((site) => {
    const [{ start, end, mutator, id }] = site;
    const length = end - start;
    if (mutator === "statement removed") {
      return [
        { at: start, length, isEnd: false, text: `{ if (!mutant(${id})) {` },
        { at: end, length, isEnd: true, text: "} }" },
      ];
    }
    const choices = site.map(({ id, to }) => `mutant(${id}) ? (${to}) : `).join("");
    return [
      { at: start, length, isEnd: false, text: `(${choices}(` },
      { at: end, length, isEnd: true, text: "))" },
    ];
  });
  // Where several edits meet, inner ones end before outer ones, and ends come before beginnings.
  edits.sort((a, b) => {
    if (a.at !== b.at) return a.at - b.at;
    if (a.isEnd !== b.isEnd) return a.isEnd ? -1 : 1;
    return a.isEnd ? a.length - b.length : b.length - a.length;
  });
  let position = 0;
  let result = "const mutant = globalThis.millraceMutant; ";
  for (const { at, text } of edits) {
    result += source.slice(position, at) + text;
    position = at;
  }
  return result + source.slice(position);
}
