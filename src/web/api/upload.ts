/** Sends a form with a file, and reports its progress, which `fetch` cannot. */
import { ApiError, errorOf } from "./client.js";
import { session } from "./session.js";

interface UploadOptions {
  /** @param share of the bytes that have been sent, 0 to 1 */
  onProgress(share: number): void;
  readonly signal: AbortSignal;
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** Rejects with an ApiError; after an abort its message is "stopped". @param path relative to the page */
export function upload(path: string, form: FormData, { onProgress, signal }: UploadOptions): Promise<unknown> {
  const request = new XMLHttpRequest();
  request.open("POST", path);
  const token = session.peek()?.csrf_token;
  if (token !== undefined) request.setRequestHeader("X-CSRF-Token", token);
  request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
  return new Promise((resolve, reject) => {
    const stop = () => request.abort();
    request.onload = () => {
      const body = parsed(request.responseText);
      if (request.status >= 200 && request.status < 300) resolve(body);
      else reject(errorOf(body, request.status));
    };
    request.onerror = () => reject(new Error("The server does not answer"));
    request.onabort = () => reject(new ApiError("stopped", undefined, 0));
    request.onloadend = () => signal.removeEventListener("abort", stop);
    signal.addEventListener("abort", stop);
    request.send(form);
  });
}
