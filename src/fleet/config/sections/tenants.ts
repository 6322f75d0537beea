/** Keys for the tenants whose requests the gateway accepts: `managed-keys` and `oidc`. */
import { z } from "zod";
import { duration, parsed, section, text } from "../../../core/config-values.js";
import { isSafeUrl } from "../../../gateway/tenants/oidc.js";

export const safeUrl = () =>
  parsed("an https URL (http on this machine)", ["https://login.example.com"], /^https?:\/\//, (written) =>
    isSafeUrl(written) ? written : undefined,
  );

const claim = () => text("the name of a claim");

export const tenantKeys = {
  "managed-keys": z
    .boolean()
    .prefault(false)
    .describe(
      "whether the administrator makes keys, teams and organisations through /admin, kept in data-folder; works beside api-keys; fixed at the start",
    ),
  oidc: section({
    issuer: safeUrl().describe("the identity provider, exactly as its tokens name it"),
    audience: z
      .union([text(), z.array(text()).min(1)])
      .meta({ title: "a name or a list of names" })
      .transform((value): readonly string[] => (typeof value === "string" ? [value] : value))
      .describe("name or names of this gateway, one of which a token must have"),
    "jwks-uri": safeUrl().optional().describe("address of the provider's keys (default: as the issuer publishes it)"),
    "tenant-claim": claim().describe("claim that names the organisation"),
    "team-claim": claim().optional().describe("claim that names the team within it; a token may lack it"),
    "models-claim": claim()
      .optional()
      .describe("claim that lists the models the token allows, as patterns; a token must have it"),
    "clock-skew": duration().prefault("30s").describe("difference allowed between the provider's clock and this one"),
  })
    .optional()
    .describe("tokens (JWT) of an OpenID Connect provider, taken as keys; fixed at the start"),
};
