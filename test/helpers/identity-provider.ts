/**
 * An OpenID Connect provider that checks what real ones check, and misbehaves when it is told to. Its visitors agree by
 * a link.
 */
import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from "jose";

interface Grant {
  readonly nonce: string;
  readonly challenge: string;
}

export const CLAIMS = { sub: "u1", email: "ann@example.com", groups: ["staff", "llm-admins"] };

export interface KeyPair {
  readonly publicKey: CryptoKey;
  readonly privateKey: CryptoKey;
}

export const makeKeyPair = (): Promise<KeyPair> => generateKeyPair("RS256", { extractable: true });

export class IdentityProvider {
  readonly grants = new Map<string, Grant>();
  idToken: (nonce: string) => string | Promise<string> = (nonce) => this.signed({ nonce });
  /** Documents by their paths. */
  readonly answers: Record<string, () => string> = {};
  isDown = false;
  readonly #server: Server;

  private constructor(
    private readonly pair: KeyPair,
    private readonly hostName: string,
  ) {
    this.#server = createServer(async (incoming, outgoing) => {
      if (this.isDown) return void outgoing.writeHead(503).end();
      const { pathname, searchParams } = new URL(incoming.url ?? "", this.issuer);
      if (pathname === "/authorize")
        return void outgoing.setHeader("content-type", "text/html").end(this.#page(searchParams));
      outgoing.setHeader("content-type", "application/json");
      const answer = this.answers[incoming.url ?? ""];
      if (answer !== undefined) return void outgoing.end(answer());
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const token = await this.#redeem(new URLSearchParams(Buffer.concat(chunks).toString()));
      if (token === undefined) return void outgoing.writeHead(400).end('{"error": "invalid_grant"}');
      outgoing.end(JSON.stringify({ access_token: "a", token_type: "Bearer", id_token: token }));
    });
  }

  /** @param hostName of its address: for browsers, localhost is another site than 127.0.0.1 */
  static async start(pair: KeyPair, hostName = "127.0.0.1"): Promise<IdentityProvider> {
    const provider = new IdentityProvider(pair, hostName);
    await new Promise<void>((resolve) => provider.#server.listen(0, hostName, resolve));
    const { issuer } = provider;
    const keys = [{ ...(await exportJWK(pair.publicKey)), kid: "one", alg: "RS256", use: "sig" }];
    provider.answers["/keys"] = () => JSON.stringify({ keys });
    provider.answers["/.well-known/openid-configuration"] = () =>
      JSON.stringify({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        response_types_supported: ["code"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["RS256"],
      });
    return provider;
  }

  get issuer(): string {
    return `http://${this.hostName}:${(this.#server.address() as AddressInfo).port}`;
  }

  signed(
    claims: object,
    key: CryptoKey | Uint8Array = this.pair.privateKey,
    alg = "RS256",
    kid = "one",
  ): Promise<string> {
    return new SignJWT({ iss: this.issuer, aud: "millrace", ...CLAIMS, ...claims })
      .setProtectedHeader({ alg, kid })
      .setIssuedAt()
      .setExpirationTime("exp" in claims ? (claims.exp as number) : "5m")
      .sign(key);
  }

  /** The visitor agrees to what the client asks for. @returns the query that leads back */
  agree(asked: URLSearchParams, code = "code-1"): string {
    this.grants.set(code, { nonce: asked.get("nonce")!, challenge: asked.get("code_challenge")! });
    return `code=${code}&state=${asked.get("state")}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #page(asked: URLSearchParams): string {
    const back = `${asked.get("redirect_uri")}?${this.agree(asked)}`;
    return `<!doctype html><a href="${back.replaceAll("&", "&amp;")}">Agree</a>`;
  }

  /** As RFC 6749 and 7636 ask: the client's secret, one use of a code, and the verifier of its challenge. */
  async #redeem(form: URLSearchParams): Promise<string | undefined> {
    const code = form.get("code") ?? "";
    const grant = this.grants.get(code);
    this.grants.delete(code);
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const isClient = form.get("client_id") === "millrace" && form.get("client_secret") === "s3cret";
    if (grant === undefined || !isClient || challenge !== grant.challenge) return undefined;
    return await this.idToken(grant.nonce);
  }
}
