/** Both questions must be in the same script and, if it is known, in the same language. */
import { isSameBag, type Veto } from "./veto.js";

export const LANGUAGE: Veto = {
  name: "language",
  objects: (a, b) =>
    !isSameBag(a.scripts, b.scripts) ||
    (a.language !== undefined && b.language !== undefined && a.language !== b.language),
};
