/** Signs requests to AWS (Signature Version 4, AWS General Reference), with the headers that Bedrock needs. */
import { createHash, createHmac } from "node:crypto";

export interface AwsCredentials {
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

interface SignedRequest {
  readonly method: string;
  /** The path as sent: each segment is encoded once. */
  readonly path: string;
  /** The headers to sign, in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly service: string;
  readonly now: Date;
}

const ALGORITHM = "AWS4-HMAC-SHA256";

const sha256 = (data: Uint8Array | string): string => createHash("sha256").update(data).digest("hex");
const hmac = (key: Buffer | string, data: string): Buffer => createHmac("sha256", key).update(data).digest();

/** RFC 3986 without the exceptions of encodeURIComponent. */
export function awsEncode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** @example 20260131T235959Z */
const timeOf = (now: Date): string => `${now.toISOString().replace(/[-:]/g, "").slice(0, 15)}Z`;

const scopeOf = ({ region }: AwsCredentials, { service, now }: Pick<SignedRequest, "service" | "now">): string =>
  `${timeOf(now).slice(0, 8)}/${region}/${service}/aws4_request`;

const namesOf = (headers: SignedRequest["headers"]): string => Object.keys(headers).sort().join(";");

/** The signature in hexadecimal. */
export function signature(credentials: AwsCredentials, request: SignedRequest): string {
  const { method, path, headers, body, now } = request;
  const names = Object.keys(headers).sort();
  const canonical = [
    method,
    // Every service but S3 has the path encoded twice.
    path.split("/").map(awsEncode).join("/"),
    "",
    ...names.map((name) => `${name}:${headers[name]!.trim()}`),
    "",
    namesOf(headers),
    sha256(body),
  ].join("\n");
  const scope = scopeOf(credentials, request);
  const toSign = [ALGORITHM, timeOf(now), scope, sha256(canonical)].join("\n");
  const key = scope.split("/").reduce<Buffer | string>(hmac, `AWS4${credentials.secretAccessKey}`);
  return hmac(key, toSign).toString("hex");
}

/** The headers of a POST of JSON, beside those that every request has. */
export function signedHeaders(
  credentials: AwsCredentials,
  { host, ...request }: Omit<SignedRequest, "method" | "headers"> & { readonly host: string },
): Readonly<Record<string, string>> {
  const { accessKeyId, sessionToken } = credentials;
  const own: Readonly<Record<string, string>> = {
    "x-amz-date": timeOf(request.now),
    ...(sessionToken === undefined ? {} : { "x-amz-security-token": sessionToken }),
  };
  const headers = { "content-type": "application/json", host, ...own };
  const signed = signature(credentials, { ...request, method: "POST", headers });
  const credential = `${accessKeyId}/${scopeOf(credentials, request)}`;
  return {
    ...own,
    authorization: `${ALGORITHM} Credential=${credential}, SignedHeaders=${namesOf(headers)}, Signature=${signed}`,
  };
}
