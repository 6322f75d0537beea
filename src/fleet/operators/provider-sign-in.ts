/**
 * Sign-in of operators at an OpenID Connect provider: the authorization-code flow with PKCE, state and nonce. The
 * openid-client package creates and checks the messages.
 */
import { createHash, randomBytes } from "node:crypto";
import { EncryptJWT, jwtDecrypt } from "jose";
import * as openid from "openid-client";
import type { Secret } from "../../core/config-values.js";
import { MillraceError } from "../../core/errors.js";
import { ROLES, type Role, type Who } from "../../core/sign-in/roles.js";

export interface SignInSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly publicUrl: string;
  readonly name: string;
  readonly roleClaim: string;
  readonly roles: Readonly<Record<Role, readonly string[]>>;
}

/** The browser keeps its sealed attempt, and the gateway stores none: strangers cannot crowd out attempts. */
interface Attempt {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

export const ATTEMPT_SECONDS = 600;
const MAX_USED = 10_000;
const SEAL = { alg: "dir", enc: "A256GCM" } as const;
const MAX_ANSWER_BYTES = 1024 * 1024;
const TIMEOUT_SECONDS = 5;
const MAX_NAME_CHARACTERS = 64;

export class ProviderSignIn {
  readonly #sealKey = randomBytes(32);
  /** Hashes of the used attempts, oldest first. */
  readonly #used = new Set<string>();
  #provider: Promise<openid.Configuration> | undefined;

  constructor(
    readonly settings: SignInSettings,
    private readonly now: () => number = Date.now,
  ) {}

  /** @returns the address at the provider, and the attempt, which the same browser must send back */
  async begin(): Promise<{ readonly url: URL; readonly attempt: string }> {
    const provider = await this.#discovered();
    const [state, nonce, verifier] = [openid.randomState(), openid.randomNonce(), openid.randomPKCECodeVerifier()];
    const url = openid.buildAuthorizationUrl(provider, {
      redirect_uri: this.#returnUrl(),
      scope: "openid profile email",
      code_challenge: await openid.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      state,
      nonce,
    });
    const attempt = await new EncryptJWT({ state, nonce, verifier } satisfies Attempt)
      .setProtectedHeader(SEAL)
      .setExpirationTime(new Date(this.now() + 1000 * ATTEMPT_SECONDS))
      .encrypt(this.#sealKey);
    return { url, attempt };
  }

  /** Opens an attempt. Each works once, even if the sign-in then fails. */
  async #opened(sealed: string): Promise<Attempt | undefined> {
    const hash = createHash("sha256").update(sealed).digest("base64url");
    if (this.#used.has(hash)) return undefined;
    try {
      const { payload } = await jwtDecrypt(sealed, this.#sealKey, { currentDate: new Date(this.now()) });
      if (this.#used.has(hash)) return undefined;
      this.#used.add(hash);
      for (const oldest of this.#used) {
        if (this.#used.size <= MAX_USED) break;
        this.#used.delete(oldest);
      }
      return payload as unknown as Attempt;
    } catch {
      return undefined;
    }
  }

  /** @param query the provider's addition to the address, with its question mark */
  async finish(sealed: string | undefined, query: string): Promise<Who> {
    const attempt = sealed === undefined ? undefined : await this.#opened(sealed);
    if (attempt === undefined) throw refused("a sign-in that began here", undefined);
    const provider = await this.#discovered();
    const checks = { pkceCodeVerifier: attempt.verifier, expectedState: attempt.state, expectedNonce: attempt.nonce };
    const url = new URL(this.#returnUrl() + query);
    const tokens = await openid
      .authorizationCodeGrant(provider, url, { ...checks, idTokenExpected: true })
      .catch((thrown: unknown) => {
        throw isOutage(thrown) ? unavailable(thrown) : refused("a valid answer of the identity provider", thrown);
      });
    return this.#whoIs(tokens.claims() ?? {});
  }

  #whoIs(claims: Readonly<Record<string, unknown>>): Who {
    const { roleClaim, roles } = this.settings;
    const given = [claims[roleClaim]].flat();
    const role = ROLES.findLast((each) => roles[each].some((value) => given.includes(value)));
    // A provider may let people enter others' addresses in their accounts, so an unverified one must not appear in the
    // audit.
    const email = claims.email_verified === false ? undefined : claims.email;
    const name = [email, claims.preferred_username, claims.sub].find((each) => typeof each === "string") ?? "";
    // The prefix is impossible in names of the file's operators.
    const shown = `oidc:${name.slice(0, MAX_NAME_CHARACTERS)}`;
    if (role !== undefined) return { name: shown, role };
    throw new MillraceError("forbidden", `expected a role for ${shown} by the claim ${roleClaim}, got none`, {
      hint: "sign-in.roles of the gateway's file says which values have a role",
    });
  }

  #returnUrl(): string {
    return `${this.settings.publicUrl.replace(/\/$/, "")}/signed-in`;
  }

  /** Runs discovery once, and again after a failure. */
  #discovered(): Promise<openid.Configuration> {
    this.#provider ??= this.#discover().catch((thrown: unknown) => {
      this.#provider = undefined;
      throw unavailable(thrown);
    });
    return this.#provider;
  }

  #discover(): Promise<openid.Configuration> {
    const { issuer, clientId, clientSecret } = this.settings;
    // The configuration allows http only for this machine.
    const local = issuer.startsWith("http:") ? [openid.allowInsecureRequests] : [];
    return openid.discovery(new URL(issuer), clientId, clientSecret.reveal(), undefined, {
      // enableNonRepudiationChecks also verifies the signature of a token that comes straight from the provider.
      execute: [...local, openid.enableNonRepudiationChecks],
      timeout: TIMEOUT_SECONDS,
      [openid.customFetch]: fetchBounded,
    });
  }
}

class TooLarge extends Error {}

/** Bounds the provider's answer, so that it cannot fill the memory. */
async function fetchBounded(url: string, options: openid.CustomFetchOptions): Promise<Response> {
  const response = await fetch(url, options as RequestInit);
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    numBytes += chunk.length;
    if (numBytes > MAX_ANSWER_BYTES) throw new TooLarge(`expected at most ${MAX_ANSWER_BYTES} bytes, got more`);
    chunks.push(chunk);
  }
  const { status, headers } = response;
  return new Response(numBytes === 0 ? null : new Uint8Array(Buffer.concat(chunks)), { status, headers });
}

/** Whether the provider gave no valid answer: fetch throws TypeErrors, and time limits throw DOMExceptions. */
function isOutage(thrown: unknown): boolean {
  const causes = [thrown, (thrown as Error).cause, ((thrown as Error).cause as Error | undefined)?.cause];
  return causes.some((each) => {
    if (each instanceof TooLarge || each instanceof DOMException) return true;
    return each instanceof Response ? each.status >= 500 : each instanceof TypeError && each.message === "fetch failed";
  });
}

function unavailable(cause: unknown): MillraceError {
  return new MillraceError("identity_provider_unavailable", "expected an answer of the identity provider, got none", {
    hint: "try again, or sign in with a key",
    retryAfterSeconds: 5,
    cause,
  });
}

function refused(expected: string, cause: unknown): MillraceError {
  return new MillraceError("invalid_api_key", `expected ${expected}, got another`, {
    hint: "begin again from the app's page",
    cause,
  });
}
