/** Signs requests to AWS (Signature Version 4, AWS General Reference), with the headers that Bedrock needs. */
import { createHash, createHmac } from "node:crypto";

export interface AwsCredentials {
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface SignedRequest {
  readonly method: "POST" | "GET";
  readonly host: string;
  /** As it is sent: each segment is encoded once. */
  readonly path: string;
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

/** @returns the headers to send beside `content-type` @example signedHeaders(credentials, { method: "POST", host, path, body, service: "bedrock", now }) */
export function signedHeaders(credentials: AwsCredentials, request: SignedRequest): Readonly<Record<string, string>> {
  const { region, accessKeyId, secretAccessKey, sessionToken } = credentials;
  const { method, host, path, body, service, now } = request;
  // 20260131T235959Z
  const time = `${now.toISOString().replace(/[-:]/g, "").slice(0, 15)}Z`;
  const day = time.slice(0, 8);
  const signed: Record<string, string> = {
    "content-type": "application/json",
    host,
    "x-amz-date": time,
    ...(sessionToken === undefined ? {} : { "x-amz-security-token": sessionToken }),
  };
  const names = Object.keys(signed).sort();
  const canonical = [
    method,
    // Every service but S3 has the path encoded twice.
    path.split("/").map(awsEncode).join("/"),
    "",
    ...names.map((name) => `${name}:${signed[name]!.trim()}`),
    "",
    names.join(";"),
    sha256(body),
  ].join("\n");
  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = [ALGORITHM, time, scope, sha256(canonical)].join("\n");
  const key = [day, region, service, "aws4_request"].reduce<Buffer | string>(hmac, `AWS4${secretAccessKey}`) as Buffer;
  const signature = hmac(key, toSign).toString("hex");
  const { host: _, "content-type": __, ...sent } = signed;
  return {
    ...sent,
    authorization: `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`,
  };
}
