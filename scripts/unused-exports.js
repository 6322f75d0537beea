/**
 * Finds exports that no other file imports: dead code, or an internal part that looks public. Tests count as importers.
 */
import { dirname, posix } from "node:path";
import { SyntaxKind } from "typescript/unstable/ast";
import {
  isCallExpression,
  isExportAssignment,
  isExportDeclaration,
  isImportDeclaration,
  isImportTypeNode,
  isNamespaceImport,
  isStringLiteral,
  isVariableStatement,
} from "typescript/unstable/ast/is";
import { placeOf } from "./syntax.js";

/** Programs and configurations: they run by path, or a tool reads their exports by name. */
const isEntry = (path) => /^(bin|scripts|test\/fixtures)\/|\.(test|config)\.ts$/.test(path);

/** "../dist/src/core/log.js" as seen from bin/a.js → src/core/log.ts, if that is one of `sources`. */
function targetOf(path, specifier, sources) {
  if (!specifier.startsWith(".")) return undefined;
  const target = posix.join(dirname(path), specifier).replace(/^dist\//, "");
  return [target, target.replace(/\.js$/, ".ts"), target.replace(/\.js$/, ".tsx")].find((each) => sources.has(each));
}

const isImportCall = (node) => isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword;

/** The names that a node imports from another file; "*" means all. */
function importedNames(node) {
  if (isImportDeclaration(node)) {
    const { name, namedBindings } = node.importClause ?? {};
    if (namedBindings !== undefined && isNamespaceImport(namedBindings)) return ["*"];
    const named = (namedBindings?.elements ?? []).map((element) => (element.propertyName ?? element.name).text);
    return name === undefined ? named : ["default", ...named];
  }
  if (isExportDeclaration(node)) {
    return node.exportClause?.elements?.map((element) => (element.propertyName ?? element.name).text) ?? ["*"];
  }
  if (isImportTypeNode(node)) return [node.qualifier?.text ?? "*"];
  return ["*"];
}

function specifierOf(node) {
  if (isImportDeclaration(node) || isExportDeclaration(node)) return node.moduleSpecifier?.text;
  if (isImportTypeNode(node)) return node.argument.literal?.text;
  if (isImportCall(node) && node.arguments[0] !== undefined && isStringLiteral(node.arguments[0])) {
    return node.arguments[0].text;
  }
  return undefined;
}

/** @returns {Map<string, Set<string>>} path → the names that other files import from it */
function importsByTarget(sources) {
  const imports = new Map();
  for (const [path, file] of sources) {
    const visit = (node) => {
      const specifier = specifierOf(node);
      const target = specifier === undefined ? undefined : targetOf(path, specifier, sources);
      if (target !== undefined) {
        const names = imports.get(target) ?? new Set();
        for (const name of importedNames(node)) names.add(name);
        imports.set(target, names);
      }
      node.forEachChild(visit);
    };
    visit(file);
  }
  return imports;
}

/** @returns names with their declaring nodes */
function exportsOf(file) {
  return file.statements.flatMap((statement) => {
    if (isExportAssignment(statement)) return [{ name: "default", node: statement }];
    if (isExportDeclaration(statement)) {
      return (statement.exportClause?.elements ?? []).map((element) => ({ name: element.name.text, node: element }));
    }
    if (!statement.modifiers?.some(({ kind }) => kind === SyntaxKind.ExportKeyword)) return [];
    if (!isVariableStatement(statement)) return [{ name: statement.name.text, node: statement }];
    return statement.declarationList.declarations.flatMap(({ name }) =>
      namesOf(name).map((each) => ({ name: each, node: statement })),
    );
  });
}

/** A name, or the names of a pattern. */
function namesOf(name) {
  return name.text !== undefined ? [name.text] : name.elements.flatMap((element) => namesOf(element.name));
}

/** @returns lines of the form "file:line: problem" */
export function unusedExports(sources) {
  const imports = importsByTarget(sources);
  return [...sources]
    .filter(([path]) => !isEntry(path))
    .flatMap(([path, file]) => {
      const names = imports.get(path) ?? new Set();
      if (names.has("*")) return [];
      return exportsOf(file)
        .filter(({ name }) => !names.has(name))
        .map(({ name, node }) => {
          const place = placeOf(path, file, node.getStart(file));
          return `${place}: expected another file to import "${name}", got none; drop its "export", or the whole of it`;
        });
    });
}
