/** Keys of the conversations that the gateway stores for clients of the app: `conversations`. */
import { byteSize, integer, section } from "../../../core/config-values.js";

export const conversations = () =>
  section({
    "per-client": integer(1, 10_000).prefault(200).describe("conversations of a client; the oldest make room"),
    "bytes-each": byteSize().prefault("2MiB").describe("size of one conversation, as JSON"),
    "bytes-per-client": byteSize().prefault("64MiB").describe("size of all of a client; the oldest make room"),
    "bytes-per-tenant": byteSize()
      .prefault("256MiB")
      .describe("size of all of a tenant's clients, so that one tenant does not fill max-bytes; more is refused"),
    "max-bytes": byteSize()
      .prefault("1GiB")
      .describe("size of all conversations; further ones are refused, and stay in the browser"),
    "keep-days": integer(1, 3650).prefault(365).describe("days after its last change for which one is kept"),
  })
    .optional()
    .describe(
      "keeps the app's conversations in data-folder, for each client its own (default: they stay in the browser); needs keys; fixed at the start",
    );
