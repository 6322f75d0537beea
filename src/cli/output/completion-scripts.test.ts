/** Each script in its own shell; shells other than bash are tested where they are installed. */
import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";

async function scriptFor(shell: string): Promise<string> {
  const { stdout, exitCode } = await runMain("completion", shell);
  expect(exitCode).toBe(0);
  return stdout;
}

/** The completions that bash offers for the last word. */
function offered(script: string, ...words: readonly string[]): readonly string[] {
  const ask = `${script}
COMP_WORDS=(millrace "$@")
COMP_CWORD=$#
_millrace
printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync("bash", ["-c", ask, "bash", ...words], { encoding: "utf8" })
    .trim()
    .split("\n");
}

test("bash completes commands, subcommands and their flags", async () => {
  const script = await scriptFor("bash");
  expect(offered(script, "ge")).toEqual(["generate"]);
  expect(offered(script, "")).toEqual(expect.arrayContaining(["serve", "pull", "ps", "completion"]));
  expect(offered(script, "bench", "comp")).toEqual(["compare"]);
  expect(offered(script, "generate", "--temp")).toEqual(["--temperature"]);
  expect(offered(script, "--served")).toEqual(["--served-model-name"]);
  expect(offered(script, "config", "check", "--j")).toEqual(["--json"]);
  // Other words are left for the shell's own completion of files.
  expect(offered(script, "generate", "x")).toEqual([""]);
});

test("every command and flag is in every script", async () => {
  const { stdout } = await runMain("completion", "--json", "bash");
  const { commands } = JSON.parse(stdout) as { commands: readonly { readonly path: string }[] };
  const paths = commands.map(({ path }) => path);
  expect(paths).toEqual(expect.arrayContaining(["", "serve", "bench run", "cache clear", "plan costs"]));
  for (const shell of ["bash", "zsh", "fish"]) {
    const script = await scriptFor(shell);
    for (const path of paths) expect(script).toContain(path.split(" ").at(-1));
    expect(script).toContain("kv-cache-dtype");
  }
});

test.for(["zsh", "fish"])("%s takes its script", async (shell, context) => {
  const path = join(tempTree({ script: await scriptFor(shell) }), "script");
  const check = spawnSync(shell, ["-n", path], { encoding: "utf8" });
  if (check.error !== undefined) context.skip(`needs ${shell}`);
  expect(check).toMatchObject({ status: 0, stderr: "" });
});

test("another shell is refused, with the list of shells", async () => {
  const { stderr, exitCode } = await runMain("completion", "tcsh");
  expect(stderr).toMatch(/expected the shell to be one of bash, zsh, fish, got "tcsh"/);
  expect(exitCode).toBe(2);
});
