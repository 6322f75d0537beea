/** Keys for the quality of production traffic: `quality`. */
import { z } from "zod";
import { integer, parsed, section, text } from "../../../core/config-values.js";
import { parseByteSize } from "../../../core/quantities.js";

export const share = () =>
  parsed("a share of requests above 0 %", ["2%", "0.5%", "100%"], /^\d+(\.\d+)?\s?%$/, (written) => {
    const percent = Number.parseFloat(written);
    return percent > 0 && percent <= 100 ? percent / 100 : undefined;
  });

const sizeOrNone = () =>
  parsed("a size, or 0B", ["64MiB", "1GiB", "0B"], /^\d+(\.\d+)?\s*[A-Za-z]*$/, (written) =>
    /^0+B?$/.test(written) ? 0 : parseByteSize(written),
  );

export const quality = () =>
  section({
    sample: share().prefault("2%").describe("share of requests whose answers are checked, by chance"),
    "at-least": integer(0, 100_000)
      .prefault(0)
      .describe("samples a day of each model and tenant, taken even where they are a larger share"),
    tenants: z.array(text()).min(1).prefault(["*"]).describe("tenants whose requests are sampled, as patterns"),
    keep: sizeOrNone()
      .prefault("64MiB")
      .describe("texts of samples and feedback that are kept, without personal data; the oldest go first; 0B: none"),
    "keep-days": integer(1, 3650).prefault(30).describe("days for which verdicts, sums and feedback are kept"),
    "quiet-days": integer(1, 36_500)
      .prefault(365)
      .describe("days in which at most one false alarm of drift is expected, over all models, tenants and checks"),
  })
    .optional()
    .describe("checks of sampled answers, feedback, and alarms on drift; needs ledger; fixed at the start");
