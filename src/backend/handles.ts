/** Handles by which the operands of a recorded program name a backend's memory and matrices. */

/** Handle of memory that the backend owns. No buffer has handle 0: optional operands pass it for "none". */
export type BufferHandle = number & { readonly __buffer: unique symbol };
/** Handle of a weight matrix [rows, cols], which `linear` and `embed` read. */
export type WeightHandle = number & { readonly __weight: unique symbol };
/** Handle of weight matrices of one type and shape, one for each expert. */
export type WeightStackHandle = number & { readonly __weightStack: unique symbol };

export const NO_BUFFER = 0 as BufferHandle;
