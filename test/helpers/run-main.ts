/**
 * Runs the command line in this process and returns what it wrote. For commands that end by themselves and start no
 * engine.
 */
import { vi } from "vitest";
import { main } from "../../src/cli/main.js";

interface MainResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

function capture(stream: NodeJS.WriteStream): { text(): string; restore(): void } {
  let text = "";
  const spy = vi.spyOn(stream, "write").mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  return { text: () => text, restore: () => spy.mockRestore() };
}

export async function runMain(...args: readonly string[]): Promise<MainResult> {
  const stdout = capture(process.stdout);
  const stderr = capture(process.stderr);
  const exitCodeBefore = process.exitCode;
  process.exitCode = undefined;
  try {
    await main(args);
    return { stdout: stdout.text(), stderr: stderr.text(), exitCode: Number(process.exitCode ?? 0) };
  } finally {
    process.exitCode = exitCodeBefore;
    stdout.restore();
    stderr.restore();
  }
}
