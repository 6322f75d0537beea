/** The header by which a gateway marks a request for our engine, such as a batch line, that must not delay others. */
export const BACKGROUND_HEADER = "x-millrace-background";
