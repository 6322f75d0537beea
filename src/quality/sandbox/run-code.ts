/** Runs generated code in a jail; without a jail only if the user allows it. */
import { MillraceError } from "../../core/errors.js";
import { pythonProgram } from "./python.js";
import { type RunResult, readResults, type SandboxJob } from "./results.js";
import { runProgram } from "./run-confined.js";
import { typescriptProgram } from "./typescript.js";

export type CodeLanguage = "typescript" | "python";

/** This value allows unconfined code on systems without a jail. */
const SWITCH = "MILLRACE_GENERATED_CODE";
const UNCONFINED = "unconfined";

const PROBES: Record<CodeLanguage, string> = {
  typescript: "function probe(a: number): number { return a; }",
  python: "def probe(a):\n    return a",
};

/** The reason why there is no jail; undefined if there is one. Tested once, and again only after a timeout. */
const missingWalls = new Map<CodeLanguage, Promise<string | undefined>>();

export const hasPython = (): boolean => pythonProgram() !== undefined;

/**
 * Calls a function of generated code.
 *
 * @throws MillraceError confinement_missing
 */
export async function runCode(language: CodeLanguage, job: SandboxJob): Promise<RunResult> {
  const isConfined = await requireConfinement(language);
  const outcome = await runProgram(programOf(language), JSON.stringify(job), isConfined);
  if ("wallsMissing" in outcome) throw missing(outcome.wallsMissing);
  return "problem" in outcome ? { problem: outcome.problem } : readResults(outcome.output, job.calls.length);
}

/**
 * Whether code will be confined; call it before a long run.
 *
 * @throws MillraceError confinement_missing without a jail, unless the user allows unconfined code
 */
export async function requireConfinement(language: CodeLanguage): Promise<boolean> {
  const reason = await whyUnconfined(language);
  if (reason === undefined) return true;
  if (process.env[SWITCH] === UNCONFINED) return false;
  throw missing(reason);
}

/** The reason why generated code cannot be confined here; undefined if it can. */
export function whyUnconfined(language: CodeLanguage): Promise<string | undefined> {
  let reason = missingWalls.get(language);
  if (reason === undefined) {
    reason = probe(language, () => missingWalls.delete(language));
    missingWalls.set(language, reason);
  }
  return reason;
}

async function probe(language: CodeLanguage, onLate: () => void): Promise<string | undefined> {
  if (process.platform !== "linux") return `${process.platform} has no namespaces`;
  const job: SandboxJob = { code: PROBES[language], name: "probe", calls: [[1]] };
  const outcome = await runProgram(programOf(language), JSON.stringify(job), true);
  if ("isLate" in outcome && outcome.isLate) onLate();
  if ("wallsMissing" in outcome) return outcome.wallsMissing;
  const results = "problem" in outcome ? outcome : readResults(outcome.output, 1);
  const complaint = "complaint" in outcome ? outcome.complaint : undefined;
  if ("problem" in results) return `${language} does not start inside: ${complaint ?? results.problem}`;
  const [result] = results;
  return result !== undefined && "value" in result && result.value === 1 ? undefined : `${language} fails inside`;
}

function programOf(language: CodeLanguage): ReturnType<typeof typescriptProgram> {
  if (language === "typescript") return typescriptProgram();
  const program = pythonProgram();
  if (program === undefined) {
    throw new MillraceError("python_missing", "expected python3 for generated Python, got none", {
      hint: "install python3",
    });
  }
  return program;
}

function missing(reason: string): MillraceError {
  return new MillraceError("confinement_missing", `expected a jail for generated code, got none: ${reason}`, {
    hint:
      "on Linux with util-linux 2.36 or newer, allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; " +
      `in a container, CAP_SYS_ADMIN) or run in a virtual machine of its own with ${SWITCH}=${UNCONFINED}: the code can then do everything that you can`,
  });
}
