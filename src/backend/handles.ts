/** What operands of a recorded program name: memory and matrices that a backend keeps. */

/** Handle of memory the backend owns. 0 is never a handle: optional operands pass it for "none". */
export type BufferHandle = number & { readonly __buffer: unique symbol };
/** Handle of a matrix [rows, cols] that `linear` and `embed` read. */
export type WeightHandle = number & { readonly __weight: unique symbol };

export const NO_BUFFER = 0 as BufferHandle;
