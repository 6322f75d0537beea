/** Options of `millrace quantize`, and the checks of their combinations. */
import { type Command, Option } from "commander";
import { LEAST_TOKENS } from "../../compress/calibration.js";
import { isFolderMethod, LAYOUTS, type Layout } from "../../compress/folder-formats.js";
import { SCALINGS, type Scaling } from "../../compress/scale-search.js";
import type { Method } from "../../compress/storage.js";
import { optionError } from "../../core/option-error.js";
import { addGateOptions } from "./gate-options.js";
import { modelOption } from "./model-option.js";
import { byteSize, integerIn, listOf } from "./option-values.js";

const USUAL_METHODS = ["Q4_K_M"];
/** `auto`: all methods; `auto:METHOD`: this one and all larger ones. */
const AUTO = /^auto(?::(.*))?$/i;
const GATE_FLAGS = { count: "--count", maxDrop: "--max-drop", maxTokens: "--max-tokens" } as const;

export interface QuantizeFlags {
  readonly model?: string;
  readonly method?: readonly string[];
  readonly maxSize?: number;
  readonly out: string;
  readonly layout: Layout;
  readonly calibrate?: string;
  readonly calibrationTokens: number;
  readonly rounding?: "gptq" | "nearest";
  readonly scaling?: Scaling | "none";
  readonly imatrix?: string;
  readonly saveImatrix?: string;
  readonly evals?: string;
  readonly count: number;
  readonly maxDrop: number;
  readonly maxTokens: number;
  readonly threads?: number;
  readonly json?: boolean;
}

export function addQuantizeOptions(command: Command): Command {
  const judged = command
    .addOption(modelOption())
    .option(
      "--method <types>",
      "types, separated by commas: the first that passes is kept; auto tries all with --evals, the smallest first, auto:Q4_0 from this type on (default: Q4_K_M; an unknown name lists all)",
      listOf("--method"),
    )
    .option(
      "--max-size <size>",
      "instead of --method: types for each kind of matrix, chosen by what their errors cost on --calibrate, for a file of this size at most",
      byteSize("--max-size"),
    )
    .requiredOption("--out <path>", "the new file, whose name ends in .gguf, or the new folder")
    .addOption(
      new Option(
        "--layout <name>",
        "format of INT4 folders: compressed-tensors for vLLM, SGLang and TGI, awq or gptq for engines that do not read it",
      )
        .choices(LAYOUTS)
        .default(LAYOUTS[0]),
    )
    .option("--calibrate <file>", "chats as JSON lines (.jsonl), or any other text: tells which columns matter")
    .option(
      "--calibration-tokens <n>",
      "most tokens of --calibrate",
      integerIn("--calibration-tokens", LEAST_TOKENS, 1 << 30),
      65_536,
    )
    .addOption(
      new Option(
        "--rounding <way>",
        "gptq: columns rounded later correct the errors of those rounded before, by the inputs that --calibrate measures; nearest: each weight alone (default: gptq with --calibrate)",
      ).choices(["gptq", "nearest"]),
    )
    .addOption(
      new Option(
        "--scaling <way>",
        "scales that move from inputs into weights, by what --calibrate measures. awq: so that rounding the weights costs least; smoothquant: also so that rounding activations to 8 bits does, for INT8 (default with --calibrate: smoothquant for INT8, awq for INT4, else none)",
      ).choices([...SCALINGS, "none"]),
    )
    .option("--imatrix <file.gguf>", "importance matrix of an earlier run or of llama-imatrix, instead of measuring")
    .option("--save-imatrix <file.gguf>", "keep what --calibrate measured")
    .option("--evals <file>", "chats as of millrace eval: a file with fewer right answers than the model is not kept");
  return addGateOptions(judged)
    .option("--threads <n>", "kernel threads (default: physical cores)", integerIn("--threads", 1, 1024))
    .option("--json", "print one JSON object instead of a table");
}

/** The methods that a command requests. */
export interface AskedMethods {
  /** With `isAuto`, all methods that fit `--out` and `--layout`. */
  readonly methods: readonly Method[];
  readonly isAuto: boolean;
  /** The first method of `auto:METHOD`. */
  readonly smallest: Method | undefined;
}

/**
 * The methods in `flags`; empty with `--max-size`, which chooses them later.
 *
 * @param out `--out` without its last slash
 * @param known all methods
 * @throws invalid_option for an unknown method, and for methods that conflict with each other, `--out` or `--layout`
 */
export function askedMethods(
  { method, maxSize, layout, evals }: QuantizeFlags,
  out: string,
  known: readonly Method[],
): AskedMethods {
  const isFile = out.endsWith(".gguf");
  if (maxSize !== undefined) {
    if (method !== undefined) throw optionError("--method", "absent beside --max-size", method.join(","));
    if (layout !== LAYOUTS[0]) throw optionError("--layout", `${LAYOUTS[0]} beside --max-size`, layout);
    if (!isFile) throw optionError("--out", "a name that ends in .gguf", out);
    return { methods: [], isAuto: false, smallest: undefined };
  }
  const methodOf = (name: string): Method => {
    const found = known.find((each) => each === name.toUpperCase());
    if (found === undefined) throw optionError("--method", `auto, or of ${known.join(", ")}`, name);
    return found;
  };
  const names = method ?? USUAL_METHODS;
  if (names.length > 1 && names.some((name) => AUTO.test(name)))
    throw optionError("--method", "auto alone", names.join(","));
  const auto = AUTO.exec(names[0]!);
  const smallest = auto?.[1] === undefined ? undefined : methodOf(auto[1]);
  if (auto && evals === undefined) throw optionError("--evals", "given beside --method auto", "nothing");
  const isTried = (each: Method): boolean =>
    isFolderMethod(each) !== isFile && (layout === LAYOUTS[0] || each.startsWith("INT4"));
  const methods = auto ? known.filter(isTried) : names.map(methodOf);
  const first = smallest ?? methods[0]!;
  const isFolder = isFolderMethod(first);
  if (!auto && methods.some((each) => isFolderMethod(each) !== isFolder))
    throw optionError("--method", "of types of files, or of types of folders", methods.join(","));
  if (layout !== LAYOUTS[0] && methods.some((each) => !each.startsWith("INT4")))
    throw optionError("--layout", `${LAYOUTS[0]} for methods other than INT4`, layout);
  if (isFile === isFolder)
    throw optionError("--out", isFolder ? `a folder for ${first}` : "a name that ends in .gguf", out);
  if (methods.length > 1 && evals === undefined)
    throw optionError("--method", "one type where no --evals chooses between several", methods.join(","));
  return { methods, isAuto: auto !== null, smallest };
}

/**
 * @param methods names of the methods that write the file or folder
 * @throws invalid_option for an option that needs or excludes another
 */
export function assertTogether(flags: QuantizeFlags, methods: readonly string[], command: Command): void {
  const { maxSize, imatrix, rounding, scaling, calibrate, saveImatrix, evals } = flags;
  if (imatrix !== undefined && saveImatrix !== undefined)
    throw optionError("--save-imatrix", "absent beside --imatrix", saveImatrix);
  const others = methods.filter((method) => method !== "INT8");
  if (scaling === "smoothquant" && others.length > 0)
    throw optionError(
      "--scaling",
      `awq or none for ${others[0]}, which does not round activations to integers`,
      scaling,
    );
  const isScaled = scaling !== undefined && scaling !== "none" && imatrix === undefined;
  const needsTexts =
    (maxSize !== undefined && "--max-size") ||
    (rounding === "gptq" && "--rounding gptq") ||
    (saveImatrix !== undefined && "--save-imatrix") ||
    (isScaled && `--scaling ${scaling}`);
  if (needsTexts && calibrate === undefined) throw optionError("--calibrate", `given beside ${needsTexts}`, "nothing");
  for (const name of ["count", "maxDrop", "maxTokens"] as const) {
    if (evals === undefined && command.getOptionValueSource(name) === "cli")
      throw optionError("--evals", `given beside ${GATE_FLAGS[name]}`, "nothing");
  }
}
