#!/usr/bin/env bash
# Everything about a GPU, measured by one command on a machine with one and with Python, and none of our packages.
#   bench/gpu.sh --build              here: programs that need no library but glibc, into build/gpu
#   bench/gpu.sh FOLDER               there: a table, and all files into FOLDER (options: bench/gpu/run.py --help)
#   bench/gpu.sh --dry-run FOLDER     anywhere: every command line, as if there were no GPU
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} != --build ]]; then
  exec python3 bench/gpu/run.py "$@"
fi
prefixes=$(.ci/install_cuda_headers)
CMAKE_PREFIX_PATH=$prefixes${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH} cmake --preset portable -D FUSEWISE_TESTS=ON
for found in FUSEWISE_CUDA_LAYERS:INTERNAL=ON NCCL_INCLUDE_DIR:PATH=/; do
  if ! grep -q "^$found" build/portable/CMakeCache.txt; then
    echo "build/portable/CMakeCache.txt: expected $found, so that layers and NCCL are built" >&2
    exit 1
  fi
done
cmake --build build/portable --target fusewise cuda_tests
mkdir -p build/gpu
for program in fusewise tests/cuda_tests; do
  strip -o "build/gpu/$(basename $program)" build/portable/$program
done
if ldd build/gpu/* | grep -E 'libfmt|libspdlog|libstdc|libz'; then
  echo "build/gpu: expected programs that need nothing but glibc" >&2
  exit 1
fi
du -sh build/gpu
