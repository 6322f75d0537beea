/** Lists the unenforced keywords of a schema in the answer's headers. */
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import { unenforcedKeywords } from "../../text/grammar/unenforced.js";
import type { AppContext } from "../http/context.js";
import { UNENFORCED_HEADER } from "../http/respond.js";

/** Also sets the header of streams, whose headers bypass Hono. */
export function sayUnenforced(c: AppContext, form: AnswerForm | undefined): void {
  if (form?.kind !== "schema") return;
  // Names come from the client, so characters that could end a header's line are removed.
  const names = unenforcedKeywords(form.schema).map((name) => name.replace(/[^\w$-]/g, "?"));
  if (names.length === 0) return;
  c.set("unenforced", names.join(", "));
  c.header(UNENFORCED_HEADER, names.join(", "));
}
