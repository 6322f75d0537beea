"""Encodes rows with GGML's own encoders, for comparisons: python3 ggml-encode.py LIBGGML-BASE.so TYPE COLS HAS_IMPORTANCE < values > blocks

Standard input: f32 importance [cols] if HAS_IMPORTANCE is 1, then f32 values [rows, cols]. With TYPE "version" it prints the library's version.
"""
import ctypes
import sys

MOST_TYPES = 64

library = ctypes.CDLL(sys.argv[1])
wanted = sys.argv[2]

if wanted == "version":
    library.ggml_version.restype = library.ggml_commit.restype = ctypes.c_char_p
    print(library.ggml_version().decode(), library.ggml_commit().decode())
    sys.exit()

cols, has_importance = int(sys.argv[3]), sys.argv[4] == "1"
library.ggml_type_name.restype = ctypes.c_char_p
library.ggml_row_size.restype = ctypes.c_size_t
library.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
library.ggml_quantize_chunk.restype = ctypes.c_size_t
library.ggml_quantize_chunk.argtypes = [
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
]  # fmt: skip


def type_id() -> int:
    for number in range(MOST_TYPES):
        name = library.ggml_type_name(number)
        if name is not None and name.decode().lower() == wanted.lower():
            return number
    sys.exit(f"expected a type of GGML, got {wanted}")


importance = sys.stdin.buffer.read(4 * cols) if has_importance else None
values = sys.stdin.buffer.read()
rows = len(values) // (4 * cols)
number = type_id()
blocks = ctypes.create_string_buffer(rows * library.ggml_row_size(number, cols))
written = library.ggml_quantize_chunk(number, values, blocks, 0, rows, cols, importance)
if written != len(blocks):
    sys.exit(f"expected {len(blocks)} bytes of {wanted}, got {written}")
sys.stdout.buffer.write(blocks)
