/** Saves a text as a file on the visitor's machine. */
export function saveAs(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text]));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
