/** Keys for operators who sign in at an identity provider: `sign-in`. */
import { z } from "zod";
import { secret, section, text } from "../../../core/config-values.js";
import { safeUrl } from "./tenants.js";

const values = (role: string) =>
  z.array(text()).default([]).describe(`values of the claim whose owners have the role ${role}`);

export const signInKeys = (environment: NodeJS.ProcessEnv) => ({
  "sign-in": section({
    issuer: safeUrl().describe("the OpenID Connect provider, exactly as its tokens name it"),
    "client-id": text().describe("name of this gateway at the provider"),
    "client-secret": secret(environment).describe("the provider's secret for this gateway, or env:NAME"),
    "public-url": safeUrl().describe(
      "address of this gateway's app as browsers see it, with a proxy's path; the provider must allow public-url/signed-in",
    ),
    name: text().prefault("your organisation").describe("text behind 'Sign in with' in the app"),
    "role-claim": text("the name of a claim").prefault("groups").describe("claim that decides the role"),
    roles: section({ viewer: values("viewer"), operator: values("operator"), admin: values("admin") }).describe(
      "values of the role-claim for each role; the greatest one counts, and who has none is refused",
    ),
  })
    .optional()
    .describe("operators sign in to the app at an OpenID Connect provider; fixed at the start"),
});
