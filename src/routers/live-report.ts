/** Reads the state of a running fleet's cascades from its admin API. */
import { request } from "undici";
import { z } from "zod";
import { errorInBody } from "../core/error-body.js";
import { MillraceError } from "../core/errors.js";

const estimate = z.object({ mean: z.number().nullable(), low: z.number(), high: z.number() });
const answerSchema = z.object({
  data: z.array(
    z.object({
      name: z.string(),
      small: z.string(),
      large: z.string(),
      is_open: z.boolean(),
      closed_at: z.string().optional(),
      num_samples: z.number(),
      kept_share: z.number(),
      max_loss: z.number(),
      loss: estimate,
      small_loss: estimate,
    }),
  ),
});

type LiveCascade = z.infer<typeof answerSchema>["data"][number];

const KEY_HINT = "the fleet needs an admin-key, and this command the same as --admin-key";

/** Throws the fleet's own error for a refusal, and upstream_failed where no fleet answers. */
export async function readCascades(url: string, adminKey: string | undefined): Promise<readonly LiveCascade[]> {
  const target = `${url.replace(/\/+$/, "")}/admin/cascades`;
  const headers = adminKey === undefined ? {} : { authorization: `Bearer ${adminKey}` };
  let got: string;
  let refusal: MillraceError | undefined;
  try {
    const { statusCode, body } = await request(target, { headers });
    const text = await body.text();
    const parsed = statusCode === 200 ? answerSchema.safeParse(JSON.parse(text)) : undefined;
    if (parsed?.success === true) return parsed.data.data;
    refusal = errorInBody(text, KEY_HINT);
    got = `${statusCode}: ${text.slice(0, 200)}`;
  } catch (thrown) {
    got = (thrown as Error).message;
  }
  throw (
    refusal ??
    new MillraceError("upstream_failed", `expected the cascades of a fleet from ${target}, got ${got}`, {
      hint: KEY_HINT,
    })
  );
}

/** Rows of a table. */
export function liveRows(cascades: readonly LiveCascade[]): string[][] {
  const share = (value: number): string => `${(100 * value).toFixed(1)} %`;
  const shown = ({ mean, low, high }: LiveCascade["loss"]): string =>
    mean === null ? "" : `${share(mean)} (${share(low)} to ${share(high)})`;
  const header = ["cascade", "state", "audited", "kept", "loss, 95 % at any time", "if all were kept", "most allowed"];
  return [
    header,
    ...cascades.map((each) => [
      `${each.name}: ${each.small}, else ${each.large}`,
      each.is_open ? "open" : `closed since ${each.closed_at}`,
      String(each.num_samples),
      share(each.kept_share),
      shown(each.loss),
      shown(each.small_loss),
      share(each.max_loss),
    ]),
  ];
}
