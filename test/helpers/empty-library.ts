/** The models of a disk that has none, with a hub that does not answer. */
import type { ModelLibrary } from "../../src/core/model-library.js";
import { openLibrary } from "../../src/library/app.js";

export const emptyLibrary = (cacheDir: string): ModelLibrary =>
  openLibrary({ uses: () => [], cacheDir, hub: { endpoint: "http://127.0.0.1:9", token: "" } });
