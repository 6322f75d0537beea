/** Says in an answer's headers which keywords of its schema were not kept. */
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import { unenforcedKeywords } from "../../text/grammar/unenforced.js";
import type { AppContext } from "../http/context.js";
import { UNENFORCED_HEADER } from "../http/respond.js";

/** Of streams, whose headers are written past Hono, as well. */
export function sayUnenforced(c: AppContext, form: AnswerForm | undefined): void {
  if (form?.kind !== "schema") return;
  // Names come from the client: nothing that could end a header's line.
  const names = unenforcedKeywords(form.schema).map((name) => name.replace(/[^\w$-]/g, "?"));
  if (names.length === 0) return;
  c.set("unenforced", names.join(", "));
  c.header(UNENFORCED_HEADER, names.join(", "));
}
