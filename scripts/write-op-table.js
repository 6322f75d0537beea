/**
 * Writes the files that derive from the table of operations (src/backend/ops.ts): native/cpu/kernels/op_table.h and
 * docs/reference/operations.md. A C++ compiler cannot read the table, and users of a package compile without this
 * script, so both files are checked in.
 *
 *   node scripts/write-op-table.js           writes them
 *   node scripts/write-op-table.js --check   fails where a file is not what the table says
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import swc from "@swc/wasm-typescript";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TABLE = "src/backend/ops.ts";
/** Files beside the table that it imports. */
const PARTS = ["attention-ops", "column-ops", "expert-ops", "recurrent-ops", "row-ops", "weight-ops"];
const HEADER = "native/cpu/kernels/op_table.h";
const DOCUMENT = "docs/reference/operations.md";

/** A file of the table as a standalone module: without types, its files at most import each other. */
async function moduleOf(path) {
  const { code } = await swc.transform(readFileSync(join(ROOT, path), "utf8"), { mode: "strip-only", module: true });
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

async function loadTable() {
  let table = await moduleOf(TABLE);
  for (const part of PARTS) {
    const module = await moduleOf(`src/backend/${part}.ts`);
    table = table.replace(encodeURIComponent(`"./${part}.js"`), encodeURIComponent(`"${module}"`));
  }
  return import(table);
}

const capitalized = (name) => name[0].toUpperCase() + name.slice(1);
const VALUES = { f32: "float", i32: "int32_t", f64: "double", bytes: "uint8_t", kvCache: "uint8_t" };

/** An operand's C++ type and the values that define it besides its index. @param op its operation */
function cppOperand(op, spec, codes) {
  const name = `operand::${capitalized(spec.kind)}`;
  if (spec.kind === "code") {
    return {
      type: `${name}<${op}, ${spec.of}>`,
      bounds: `, ${spec.min ?? 0}, ${spec.max ?? codes[spec.of].length - 1}`,
    };
  }
  if (spec.access === undefined || spec.kind === "activations") return { type: `${name}<${op}>`, bounds: "" };
  const value = `${spec.access === "reads" ? "const " : ""}${VALUES[spec.kind]}`;
  const buffer = spec.kind === "kvCache" ? "KvCache" : spec.optional ? "OptionalBuffer" : "Buffer";
  return { type: `operand::${buffer}<${op}, ${value}>`, bounds: "" };
}

function cppOperation(op, { operands }, codes) {
  const lines = Object.entries(operands).map(([operand, spec], index) => {
    const { type, bounds } = cppOperand(op, spec, codes);
    return `  static constexpr ${type} ${operand}{{${index}, "${operand}"}${bounds}};`;
  });
  return [`struct ${op} {`, `  static constexpr OpCode code = OpCode::${op};`, ...lines, "};"].join("\n");
}

const listed = (values) => values.map((value) => `    ${value},`).join("\n");
const quoted = (values) => listed(values.map((value) => `"${value}"`));

function cppEnum(name, values) {
  return [
    `enum class ${name} : uint8_t { ${values.join(", ")} };`,
    `constexpr const char* k${name}Names[] = {${values.map((value) => `"${value}"`).join(", ")}};`,
  ].join("\n");
}

export function renderHeader({
  OPS,
  OP_NAMES,
  CODES,
  SAMPLE_PARAM,
  SAMPLE_PARAMS,
  ATTENTION_PART,
  KV_OCTET,
  STATE_COLUMNS,
  signatureOf,
}) {
  const params = Object.keys(SAMPLE_PARAM);
  const counts = OP_NAMES.map((op) => Object.keys(OPS[op].operands).length);
  return `// Written by scripts/write-op-table.js: change ${TABLE}, which says what each operation computes, and run it.
// size: a table, with a few lines for each operation
#pragma once
#include <cstdint>

#include "operand.h"

namespace millrace {

// Calls X with the name of each operation, in the order of the opcodes.
#define MILLRACE_OPS(X) \\
${OP_NAMES.map((op) => `  X(${op})`).join(" \\\n")}

enum class OpCode : uint32_t {
${listed(OP_NAMES)}
};
constexpr int kNumOps = ${OP_NAMES.length};
constexpr const char* kOpNames[kNumOps] = {
${quoted(OP_NAMES)}
};
// With the operands: what both sides of the boundary must agree on.
constexpr const char* kOpSignatures[kNumOps] = {
${quoted(OP_NAMES.map(signatureOf))}
};
constexpr int kNumOperands[kNumOps] = {${counts.join(", ")}};

// Attention splits the KV range at multiples of this many positions.
constexpr int64_t kAttentionPart = ${ATTENTION_PART};
// Entries of a KV block are stored eight by eight; a block is a whole number of octets.
constexpr int64_t kKvOctet = ${KV_OCTET};
// Columns of a recurrent state that lie together, and that one task computes.
constexpr int64_t kStateColumns = ${STATE_COLUMNS};

${Object.entries(CODES)
  .map(([name, values]) => cppEnum(name, values))
  .join("\n")}

// Columns of a row of sampler parameters.
enum SampleParam {
${listed(params.map((param) => `k${capitalized(param)} = ${SAMPLE_PARAM[param]}`))}
};
constexpr const char* kSampleParamNames[] = {
${quoted(params.map((param) => `params.${param}`))}
};
constexpr int64_t kSampleParams = ${SAMPLE_PARAMS};

// The operands of each operation.
namespace ops {

${OP_NAMES.map((op) => cppOperation(op, OPS[op], CODES)).join("\n\n")}

}  // namespace ops
}  // namespace millrace
`;
}

/** Fills lines up to 100 columns. */
function wrapped(text) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== "" && last.length + 1 + word.length > 100) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return lines.join("\n");
}

function markdownRow([operand, spec], codes) {
  const names =
    spec.kind === "code" ? codes[spec.of].slice(spec.min ?? 0, (spec.max ?? codes[spec.of].length) + 1) : undefined;
  const kind = names === undefined ? spec.kind : names.map((name) => `\`${name}\``).join(", ");
  const notes = [spec.optional ? "optional" : "", spec.note ?? ""].filter((note) => note !== "");
  const shape = spec.shape === undefined ? "" : `\`${spec.shape}\``;
  const cells = [`\`${operand}\``, kind, shape, spec.access ?? "", notes.join("; ")];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

export function renderDocument({ OPS, OP_NAMES, CODES }) {
  const sections = OP_NAMES.map((op) =>
    [
      `## ${op}`,
      "",
      wrapped(OPS[op].computes),
      "",
      "| Operand | Kind | Shape | Access | Note |",
      "| --- | --- | --- | --- | --- |",
      ...Object.entries(OPS[op].operands).map((entry) => markdownRow(entry, CODES)),
    ].join("\n"),
  );
  const intro = [
    `The engine records a step as a program of these operations (\`src/backend/program.ts\`), and the kernels run it. \`${TABLE}\` is the ` +
      "table they are described in; this page and the kernels' header are written from it by `node scripts/write-op-table.js`, and `npm run " +
      "lint` fails where they differ.",
    "An operation's words are its opcode (its place on this page, from 0), flags (1: the next operation does not depend on this one), the " +
      "number of its operands, and the operands in the order of their table. A buffer or weight is its handle, 0 where an optional one is " +
      "left out; a name is its place in the list.",
    "Matrices are row-major. Shapes name operands, a weight's rows and columns, and constants of the table; `*` is any length. Kinds: `f32`, " +
      "`i32`, `f64` and `bytes` are buffers of such values; `activations` are f32, or quantised rows where the weight is packed; `kvCache` " +
      "holds keys or values of the KV type; `weight` is a matrix, `weights` are several of one type and shape; `integer`, `number` and `flag` " +
      "stand for themselves.",
  ];
  return `# Operations of the kernels\n\n${intro.map(wrapped).join("\n\n")}\n\n${sections.join("\n\n")}\n`;
}

/**
 * @returns {Promise<[path: string, content: string][]>} the expected contents of the files, by paths relative to the
 *   root
 */
export async function renderAll() {
  const table = await loadTable();
  return [
    [HEADER, renderHeader(table)],
    [DOCUMENT, renderDocument(table)],
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isCheck = process.argv.includes("--check");
  for (const [path, content] of await renderAll()) {
    if (!isCheck) {
      writeFileSync(join(ROOT, path), content);
      continue;
    }
    if (readFileSync(join(ROOT, path), "utf8") === content) continue;
    process.stderr.write(`${path}: expected what ${TABLE} says; run node scripts/write-op-table.js\n`);
    process.exitCode = 1;
  }
}
