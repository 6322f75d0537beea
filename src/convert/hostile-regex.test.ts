/** A folder whose tokenizer never finishes some text is not converted, and leaves no files. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { atLimit, CATASTROPHIC, TIMEOUT, writeFolderWithRegex } from "../../test/helpers/regex-folder.js";
import { convertModel } from "./convert.js";

const root = mkdtempSync(join(tmpdir(), "millrace-hostile-convert-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => vi.useRealTimers());

test.each(["copy", "copy.gguf"])("as %s", async (name) => {
  const model = writeFolderWithRegex(join(root, `of-${name}`), CATASTROPHIC);
  const converting = convertModel({ model, out: join(root, name), type: undefined }).catch((thrown) => thrown);
  const [refused] = await Promise.all([converting, atLimit()]);
  expect(refused).toMatchObject(TIMEOUT);
  expect(readdirSync(root).filter((each) => each.startsWith("copy"))).toEqual([]);
});
