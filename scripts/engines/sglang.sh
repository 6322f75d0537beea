#!/usr/bin/env bash
# Sets up SGLang with its plain PyTorch backends on a CPU, for tests against a real SGLang. The product contains none of it.
#
#   scripts/engines/sglang.sh FOLDER     # needs Python 3.11 with venv, 9 GB of disk, PyPI
#
# PyPI only has SGLang's kernels for GPUs. Its CPU path imports their module by name, but without speculation calls none of its functions: a stub module
# replaces it, whose functions fail when called. Scheduler, radix cache, HTTP server and metrics are SGLang's own.
#
# Prints the path of the Python that runs `-m sglang.launch_server` as its last line.
set -euo pipefail

folder=${1:?expected a folder for the environment, got none}
sglang_version=0.5.23

# Written last, so that an interrupted set-up resumes.
complete="$folder/complete-$sglang_version"
if [ ! -e "$complete" ]; then
  python3.11 -m venv "$folder"
  "$folder/bin/pip" install --quiet torch==2.14.1
  # SGLang's own requirements include dozens of packages for GPUs.
  "$folder/bin/pip" install --quiet --no-deps "sglang==$sglang_version" torchvision==0.29.1
  "$folder/bin/pip" install --quiet aiohttp anthropic apache-tvm-ffi==0.1.11 blobfile compressed-tensors==0.18.0 datasets diskcache distro \
    easydict einops fastapi gguf interegular IPython llguidance mistral_common msgspec ninja numba==0.65.1 numpy nvidia-ml-py openai==2.8.0 \
    openai-harmony==0.0.4 orjson outlines==0.1.11 packaging partial_json_parser pillow prometheus-client psutil pybase64 pydantic \
    python-multipart pyzmq regex requests scipy sentencepiece==0.2.1 setproctitle smg-grpc-servicer soundfile tiktoken tokenizers==0.23.2 \
    tqdm transformers==5.19.0 uvicorn uvloop watchfiles xgrammar==0.2.7 xxhash zstandard
  touch "$complete"
fi

packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$packages/sgl_kernel"
cat > "$packages/sgl_kernel/__init__.py" <<'PYTHON'
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_args, **_kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} has no build for this CPU")

    return absent
PYTHON

"$folder/bin/python" -c 'import sglang; print("sglang", sglang.__version__)' >&2
echo "$folder/bin/python"
