/** The Python of tests that need one. */
import { execFileSync } from "node:child_process";

export const python = process.env.MILLRACE_PYTHON ?? "python3";

/**
 * Whether Python can import `modules`, such as "torch, gguf"; where it cannot, tells that tests are skipped, and the
 * remedy.
 */
export function canImport(modules: string, remedy: string): boolean {
  try {
    execFileSync(python, ["-c", `import ${modules}`], { stdio: "ignore" });
    return true;
  } catch {
    console.warn(`SKIPPED: ${python} cannot import ${modules} (${remedy}, MILLRACE_PYTHON)`);
    return false;
  }
}

/** What the training code needs. */
export const canTrain = (): boolean => canImport("torch, tokenizers, gguf", "models/requirements.txt");
