/** `batches`: files and batches of clients. */
import { z } from "zod";
import { byteSize, integer, section } from "../../../core/config-values.js";

export const batches = () =>
  section({
    enabled: z.boolean().prefault(true).describe("whether there are /v1/files, /v1/batches and /v1/messages/batches"),
    "max-in-flight": integer(1, 65_536)
      .prefault(256)
      .describe("lines of all batches that may be under way at a model, as far as it has idle seats"),
    "retention-days": integer(1, 365)
      .prefault(30)
      .describe("days for which batches that are over, and their output files, are kept"),
    "max-bytes-per-tenant": byteSize().prefault("10GiB").describe("size of all files of a tenant"),
    "max-files-per-tenant": integer(1, 1_000_000).prefault(10_000).describe("number of files of a tenant"),
    "max-open-batches": integer(1, 100_000).prefault(100).describe("batches of a tenant that are not over"),
  });
