/** Lists in the answer's headers the parts of a request without effect: keywords of its schema, and omitted tools. */
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import { unenforcedKeywords } from "../../text/grammar/unenforced.js";
import type { AppContext } from "../http/context.js";
import { UNENFORCED_HEADER } from "../http/respond.js";

/** Also sets the header of streams, since their headers bypass Hono. */
export function sayUnenforced(c: AppContext, form: AnswerForm | undefined, leftOut: readonly string[] = []): void {
  const keywords = form?.kind === "schema" ? unenforcedKeywords(form.schema) : [];
  // Names come from the client, so characters that could end a header line are removed.
  const names = [...keywords, ...leftOut].map((name) => name.replace(/[^\w$-]/g, "?"));
  if (names.length === 0) return;
  c.set("unenforced", names.join(", "));
  c.header(UNENFORCED_HEADER, names.join(", "));
}
