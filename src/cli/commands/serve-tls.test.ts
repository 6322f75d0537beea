/** A wrong certificate ends `serve` and `engine` before they look for the model, which takes minutes. */
import { expect, test } from "vitest";
import { makeCertificate, writeCertificate } from "../../../test/helpers/certificate.js";
import { runMain } from "../../../test/helpers/run-main.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";

test.each([
  ["serve", ["--model", "/nowhere.gguf"]],
  ["engine", ["--model", "/nowhere.gguf"]],
  ["serve", ["--model", "/nowhere.gguf", "--instances", "1"]],
])("%s %s", async (command, model) => {
  const folder = tempTree({});
  const { certfile, keyfile } = writeCertificate(folder, makeCertificate({ fromMs: 0, toMs: 1000 }));
  const run = (...args: readonly string[]) => runMain(command, ...model, "--port", "0", ...args);
  const half = await run("--ssl-certfile", certfile);
  expect([half.exitCode, half.stderr]).toEqual([
    2,
    expect.stringContaining("--ssl-certfile and --ssl-keyfile together"),
  ]);
  const ended = await run("--ssl-certfile", certfile, "--ssl-keyfile", keyfile);
  expect(ended.stderr).toMatch(/error \[certificate_invalid\]: .* got one that ended on Jan {2}1 00:00:01 1970 GMT/);
  const missing = await run("--ssl-certfile", certfile, "--ssl-keyfile", "/nowhere.pem");
  expect(missing.stderr).toMatch(/error \[file_unreadable\]: expected the certificate's private key in \/nowhere\.pem/);
});
