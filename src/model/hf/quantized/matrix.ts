/** The common form of quantised matrices: small whole numbers (or FP8 bits), each times the scale of its place. */

/** Scales by place: `values[⌊row / rowsPerScale⌋ · rowStride + groupOfCol[col] · groupStride]`. */
export interface ScaleGrid {
  readonly values: Float32Array;
  readonly rowsPerScale: number;
  readonly rowStride: number;
  readonly groupOfCol: Int32Array;
  readonly groupStride: number;
}

export interface QuantizedMatrix {
  readonly rows: number;
  readonly cols: number;
  readonly scales: ScaleGrid;
  /** The smallest and largest possible code, or the number type whose bits the codes are. */
  readonly range: readonly [min: number, max: number] | "F8_E4M3";
  /** Rows start at multiples of this. */
  readonly rowAlignment: number;
  /**
   * Codes of rows [start, start + numRows), zero points taken off: a weight is its code times its scale. Row after row.
   */
  readCodes(start: number, numRows: number): Uint8Array | Int16Array;
}

/** One scale for `rowsPerScale` rows and `colsPerScale` columns. */
export function evenGrid(
  values: Float32Array,
  cols: number,
  { rowsPerScale, colsPerScale }: { readonly rowsPerScale: number; readonly colsPerScale: number },
): ScaleGrid {
  return {
    values,
    rowsPerScale,
    rowStride: Math.ceil(cols / colsPerScale),
    groupOfCol: Int32Array.from({ length: cols }, (_, col) => Math.floor(col / colsPerScale)),
    groupStride: 1,
  };
}
