/**
 * Checks tokens (JWT) of an OpenID Connect provider. The provider's keys are kept, and requested again at a bounded
 * rate whatever clients send; a silent provider and a wrong token cause different errors.
 */
import { createHash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import {
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JWSHeaderParameters,
  type JWTPayload,
  type JWTVerifyOptions,
  jwtVerify,
} from "jose";
import { MillraceError } from "../../core/errors.js";
import { limitedText } from "../../core/limited-text.js";

/** Signatures by a key pair only: with a shared secret or none, anybody who can check a token could make one. */
const TOKEN_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
] as const;

export interface OidcSettings {
  readonly issuer: string;
  readonly audience: readonly string[];
  /** Absent: the address in the issuer's discovery document. */
  readonly jwksUri?: string | undefined;
  readonly tenantClaim: string;
  readonly teamClaim?: string | undefined;
  readonly modelsClaim?: string | undefined;
  readonly clockSkewMs: number;
}

/** Claims of a valid token. */
export interface TokenClaims {
  readonly tenant: string;
  readonly team: string | undefined;
  /** The holder of the token (`sub`). */
  readonly subject: string | undefined;
  /** Patterns of the models that the token allows; undefined: the claim is not configured. */
  readonly models: readonly string[] | undefined;
}

interface OidcDependencies {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly onFailure: (what: string, thrown: unknown) => void;
}

const MAX_TOKEN_CHARACTERS = 8192;
const MAX_DOCUMENT_BYTES = 1024 * 1024;
const FETCH_TIMEOUT_MS = 5000;
/** The provider's keys are requested again after this time. */
const KEYS_FRESH_MS = 10 * 60_000;
/** If the provider does not answer, its last keys are valid for this long. */
const KEYS_USABLE_MS = 24 * 3_600_000;
/** Unknown key ids cause a request for the keys at most once in this time. */
const UNKNOWN_KEY_MS = 30_000;
const RETRY_MS = 5000;
/** Longest wait of a token with a known key for a renewal of the keys; the renewal goes on without it. */
const RENEWAL_WAIT_MS = 500;
const MAX_KNOWN_TOKENS = 10_000;
/**
 * A checked token is not checked again for this long, so a key that the provider withdraws stops working within this
 * time plus KEYS_FRESH_MS.
 */
const KNOWN_FOR_MS = 60_000;
const MAX_CLAIM_MODELS = 256;

/** Part of an id of an organisation or a team. */
const SLUG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;

/** Three parts of base64url; the middle one begins with `{"`. */
export function isToken(text: string): boolean {
  return text.length <= MAX_TOKEN_CHARACTERS && /^[\w-]+\.eyJ[\w-]*\.[\w-]*$/.test(text);
}

interface KnownToken {
  readonly claims: TokenClaims;
  readonly untilMs: number;
}

export class OidcTokens {
  readonly #keys: ProviderKeys;
  readonly #known = new Map<string, KnownToken>();

  constructor(
    private readonly settings: OidcSettings,
    private readonly dependencies: OidcDependencies,
  ) {
    this.#keys = new ProviderKeys(settings, dependencies);
  }

  /**
   * Throws, or rejects with, invalid_api_key, forbidden (a valid token without the claims) or
   * identity_provider_unavailable.
   */
  claimsOf(token: string): TokenClaims | Promise<TokenClaims> {
    const id = createHash("sha256").update(token).digest("base64");
    const known = this.#known.get(id);
    if (known !== undefined && this.dependencies.now() < known.untilMs) return known.claims;
    return this.#check(token, id);
  }

  async #check(token: string, id: string): Promise<TokenClaims> {
    const { issuer, audience, clockSkewMs } = this.settings;
    const nowMs = this.dependencies.now();
    const options = {
      issuer,
      audience: [...audience],
      algorithms: [...TOKEN_ALGORITHMS],
      clockTolerance: clockSkewMs / 1000,
      requiredClaims: ["exp"],
      currentDate: new Date(nowMs),
    };
    const payload = await this.#verify(token, options);
    const claims = this.#read(payload);
    const untilMs = Math.min((payload.exp ?? 0) * 1000 + clockSkewMs, nowMs + KNOWN_FOR_MS);
    this.#known.delete(id);
    this.#known.set(id, { claims, untilMs });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MAX_KNOWN_TOKENS) break;
      this.#known.delete(oldest);
    }
    return claims;
  }

  async #verify(token: string, options: JWTVerifyOptions): Promise<JWTPayload> {
    const find = (header: JWSHeaderParameters, input: FlattenedJWSInput) => this.#keys.find(header, input);
    try {
      return (await jwtVerify(token, find, options)).payload;
    } catch (thrown) {
      throw thrown instanceof MillraceError ? thrown : invalid(thrown);
    }
  }

  #read(payload: JWTPayload): TokenClaims {
    const { tenantClaim, teamClaim, modelsClaim } = this.settings;
    const tenant = nameIn(payload, tenantClaim);
    if (tenant === undefined) throw lacking(tenantClaim, "the name of an organisation");
    const team = teamClaim === undefined || payload[teamClaim] === undefined ? undefined : nameIn(payload, teamClaim);
    if (teamClaim !== undefined && payload[teamClaim] !== undefined && team === undefined) {
      throw lacking(teamClaim, "the name of a team");
    }
    const { sub: subject } = payload;
    return { tenant, team, subject, models: modelsClaim === undefined ? undefined : modelsIn(payload, modelsClaim) };
  }
}

function nameIn(payload: JWTPayload, claim: string): string | undefined {
  const value = payload[claim];
  return typeof value === "string" && SLUG.test(value) ? value : undefined;
}

/** A list, or names separated by spaces as in `scope`. */
function modelsIn(payload: JWTPayload, claim: string): readonly string[] {
  const value = payload[claim];
  const models: unknown[] =
    typeof value === "string" ? value.split(" ").filter((name) => name !== "") : Array.isArray(value) ? value : [];
  const isValid = models.every((model): model is string => typeof model === "string" && model.length <= 200);
  if (isValid && models.length > 0 && models.length <= MAX_CLAIM_MODELS) return models;
  throw lacking(claim, "the models that it allows");
}

function lacking(claim: string, what: string): MillraceError {
  return new MillraceError("forbidden", `expected a token whose claim ${claim} has ${what}, got another`, {
    hint: "the identity provider's administrator decides what tokens say",
  });
}

const REASONS: Readonly<Record<string, string>> = {
  ERR_JWT_EXPIRED: "an expired one",
  ERR_JOSE_ALG_NOT_ALLOWED: "one with a signature that is not allowed",
  ERR_JWKS_NO_MATCHING_KEY: "one that was signed with an unknown key",
  ERR_JWKS_MULTIPLE_MATCHING_KEYS: "one that does not say its key (kid)",
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: "one with a wrong signature",
};

function invalid(thrown: unknown): MillraceError {
  const code = thrown instanceof errors.JOSEError ? thrown.code : "";
  const claim = thrown instanceof errors.JWTClaimValidationFailed ? `one with a wrong ${thrown.claim}` : undefined;
  const got = claim ?? REASONS[code] ?? "one that cannot be read";
  return new MillraceError("invalid_api_key", `expected a valid token, got ${got}`, {
    hint: "get a new one from the identity provider",
    cause: thrown,
  });
}

type LocalKeys = ReturnType<typeof createLocalJWKSet>;
type ProviderKey = Awaited<ReturnType<LocalKeys>>;

/** The provider's public keys. */
class ProviderKeys {
  #local: LocalKeys | undefined;
  #fetchedMs = Number.NEGATIVE_INFINITY;
  #triedMs = Number.NEGATIVE_INFINITY;
  #pending: Promise<void> | undefined;
  #failure: MillraceError | undefined;

  constructor(
    private readonly settings: OidcSettings,
    private readonly dependencies: OidcDependencies,
  ) {}

  async find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<ProviderKey> {
    const ageMs = this.dependencies.now() - this.#fetchedMs;
    if (ageMs >= KEYS_FRESH_MS) {
      const renewal = this.#renew(RETRY_MS);
      // A silent provider does not hold up a token with a known key.
      await (ageMs < KEYS_USABLE_MS ? Promise.race([renewal, wait(RENEWAL_WAIT_MS)]) : renewal);
    }
    try {
      return await this.#usable()(header, token);
    } catch (thrown) {
      if (!(thrown instanceof errors.JWKSNoMatchingKey)) throw thrown;
    }
    // The provider may have a new key.
    await this.#renew(UNKNOWN_KEY_MS);
    if (this.#failure !== undefined) throw this.#failure;
    return await this.#usable()(header, token);
  }

  #usable(): LocalKeys {
    const ageMs = this.dependencies.now() - this.#fetchedMs;
    if (this.#local !== undefined && ageMs < KEYS_USABLE_MS) return this.#local;
    throw this.#failure ?? providerDown(undefined);
  }

  /** Asks the provider, unless it was asked within the pause. All requests wait for the same answer. Never rejects. */
  async #renew(pauseMs: number): Promise<void> {
    if (this.#pending === undefined && this.dependencies.now() - this.#triedMs >= pauseMs) {
      this.#triedMs = this.dependencies.now();
      this.#pending = this.#fetchKeys().then(
        (keys) => {
          this.#local = keys;
          this.#fetchedMs = this.dependencies.now();
          this.#failure = undefined;
        },
        (thrown: unknown) => {
          this.#failure = providerDown(thrown);
          this.dependencies.onFailure("asking the identity provider for its keys", thrown);
        },
      );
      void this.#pending.finally(() => {
        this.#pending = undefined;
      });
    }
    await this.#pending;
  }

  async #fetchKeys(): Promise<LocalKeys> {
    const { issuer, jwksUri } = this.settings;
    const uri = jwksUri ?? (await this.#discover(issuer));
    // Throws unless the answer is a set of keys.
    return createLocalJWKSet((await getJson(uri)) as Parameters<typeof createLocalJWKSet>[0]);
  }

  async #discover(issuer: string): Promise<string> {
    const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
    const document = (await getJson(url)) as { readonly issuer?: unknown; readonly jwks_uri?: unknown } | null;
    const uri = document?.jwks_uri;
    if (document?.issuer !== issuer) throw new Error(`expected a document of ${issuer} at ${url}, got another`);
    if (typeof uri === "string" && isSafeUrl(uri)) return uri;
    throw new Error(`expected an https URL as jwks_uri at ${url}, got another value`);
  }
}

/** Whether keys from the address can be trusted: over plain HTTP they could be anybody's. */
export function isSafeUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || (protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(hostname));
}

async function getJson(url: string): Promise<unknown> {
  const signal = AbortSignal.timeout(FETCH_TIMEOUT_MS);
  const response = await fetch(url, { signal, redirect: "error", headers: { Accept: "application/json" } });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`expected 200 from ${url}, got ${response.status}`);
  }
  return JSON.parse(await limitedText(response, MAX_DOCUMENT_BYTES));
}

function providerDown(cause: unknown): MillraceError {
  return new MillraceError("identity_provider_unavailable", "expected the keys of the identity provider, got none", {
    hint: "the token may be valid; try again",
    retryAfterSeconds: RETRY_MS / 1000,
    cause,
  });
}
