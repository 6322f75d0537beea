"""Rewrites a file from `train.py` with its matrices as Q8_0: half the bytes, and integer products if the engine supports them.

Further training starts from the F16 file.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np

from export import write_file

TYPE = gguf.GGMLQuantizationType.Q8_0


def quantize(source: Path, target: Path) -> None:
    reader = gguf.GGUFReader(str(source))
    partial = target.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), reader.get_field("general.architecture").contents())
    for key, field in reader.fields.items():
        # The writer adds its own header and architecture.
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        kind, *of = field.types
        writer.add_key_value(key, field.contents(), kind, of[-1] if of else None)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for tensor in reader.tensors:
        is_matrix = len(tensor.shape) == 2
        data = gguf.quants.quantize(tensor.data.astype(np.float32), TYPE) if is_matrix else tensor.data.copy()
        writer.add_tensor(tensor.name, data, raw_dtype=TYPE if is_matrix else None)
    write_file(writer, partial, target)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse_args()
    quantize(args.model, args.out)
