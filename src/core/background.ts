/** How a gateway tells an engine of ours that a request, such as a line of a batch, is to delay no other. */
export const BACKGROUND_HEADER = "x-millrace-background";
