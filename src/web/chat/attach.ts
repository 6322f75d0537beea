/** Attaches the visitor's files to the message: texts and pictures of limited size. */
import { oneLine } from "../text/one-line.js";
import { problem } from "./chat-state.js";
import type { Attachment } from "./conversation.js";
import { attached } from "./draft.js";
import { pictureOf } from "./picture.js";

const MOST_FILE_BYTES = 1024 * 1024;

async function read(file: File): Promise<Attachment | string> {
  const name = oneLine(file.name);
  if (file.size > MOST_FILE_BYTES) return `${name} has more than 1 MiB.`;
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const image = pictureOf(bytes);
    if (image !== undefined) return { name, text: "", image };
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return { name, text };
  } catch {
    // The file is neither text nor picture, or it is a folder.
  }
  return `${name} is neither text nor a picture (PNG, JPEG, GIF, WebP).`;
}

export async function attach(files: Iterable<File>): Promise<void> {
  const all = await Promise.all([...files].map(read));
  const refused = all.filter((each) => typeof each === "string");
  problem.value = refused.length === 0 ? undefined : refused.join(" ");
  attached.value = [...attached.value, ...all.filter((each) => typeof each !== "string")];
}

/** Attaches pasted files. Pasted tables and pages come as a text and a picture of it; only the text is taken then. */
export function onPaste(event: ClipboardEvent): void {
  const { files, types } = event.clipboardData!;
  if (files.length === 0 || types.includes("text/plain")) return;
  event.preventDefault();
  void attach(files);
}

const hasFiles = ({ dataTransfer }: DragEvent): boolean => dataTransfer?.types.includes("Files") === true;

/** Without this, the browser would leave the page and open the file. */
export function onDragOver(event: DragEvent): void {
  if (!hasFiles(event)) return;
  event.preventDefault();
  event.dataTransfer!.dropEffect = "copy";
}

export function onDrop(event: DragEvent): void {
  if (!hasFiles(event)) return;
  event.preventDefault();
  // The files are accessible only during this event.
  void attach([...event.dataTransfer!.files]);
}
