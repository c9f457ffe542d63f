#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show, in one call of under ten minutes.
#
#   plugins/cuda/gpu-check.sh [--build DIR] [--out DIR]
#
# --build takes a release build that is there already (its bin/ and lib/); without it one is made in build/gpu.
# --out is where the figures go (default build/gpu-check): gpu-check.json, the reports of its steps, and their logs.
# Invariant: a step that cannot run here says so and is counted as skipped; the script fails when a step failed, and never
# when one was slow.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2

build=""
out=build/gpu-check
while [[ $# -gt 0 ]]; do
  case $1 in
    --build) build=${2:?--build needs a folder}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    *) echo "gpu-check: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"
out=$(realpath "$out")
started=$SECONDS
rows=()  # name|passed, failed or skipped|seconds|words

# The last line of a log that has anything on it, fit for JSON.
last_words() { grep -v '^[[:space:]]*$' "$1" | tail -n 1 | tr -d '"\\\t' | cut -c1-160; }

note() {
  rows+=("$1|$2|$3|$4")
  printf '  %-22s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4"
}

# step NAME SECONDS COMMAND…: runs it with a deadline; status 77 is a skip.
step() {
  local name=$1 deadline=$2 begin=$SECONDS status=0 verdict=passed
  shift 2
  timeout --kill-after=10 "$deadline" "$@" >"$out/$name.log" 2>&1 || status=$?
  [[ $status -eq 0 ]] || verdict=failed
  [[ $status -ne 77 ]] || verdict=skipped
  local words
  words=$(last_words "$out/$name.log")
  [[ $status -ne 124 && $status -ne 137 ]] || words="not done after $deadline s"
  note "$name" "$verdict" $((SECONDS - begin)) "$words"
}

make_build() {
  cmake --preset release -B build/gpu -DTENON_BUILD_TESTS=OFF -DTENON_BUILD_SAMPLES=OFF &&
    cmake --build build/gpu --target tenon_cli tenon_probe tenon_plugin_cuda bench_cuda -j"$(nproc)"
}

# NVRTC as torch's packages bring it, where there is no toolkit.
find_nvrtc() {
  ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so\.1[23]' && return
  local found
  found=$(find /usr/local /opt /usr/lib "$HOME" -name 'libnvrtc.so.1[23]' -not -path '*/stubs/*' 2>/dev/null | head -n 1)
  [[ -n $found ]] || return 0
  LD_LIBRARY_PATH="$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export LD_LIBRARY_PATH
}

sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: compute-sanitizer is not installed"; return 77; }
  compute-sanitizer --target-processes all --error-exitcode 1 "$tenon" conform "$plugin" --quick --jobs 1 \
    --filter 'memory*' --filter 'copy*' --filter 'op.add.*' --filter 'op.sum.*' --filter 'op.cast.*'
}

# A missed target (status 1) stands in the report and is no failure here.
bench() {
  local status=0
  python3 tests/bench/bench.py cuda --bin "$build/bin" --json "$out/bench.json" || status=$?
  [[ $status -le 1 ]]
}

json() {
  local row name verdict seconds words comma=""
  printf '{"date": "%s", "commit": "%s", "command": "plugins/cuda/gpu-check.sh",\n' "$(date -u +%F)" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
  printf ' "gpu": "%s",\n "torch": "%s",\n "steps": [' "$gpu" "$torch"
  for row in "${rows[@]}"; do
    IFS='|' read -r name verdict seconds words <<<"$row"
    printf '%s\n  {"name": "%s", "verdict": "%s", "seconds": %s, "words": "%s"}' "$comma" "$name" "$verdict" \
      "$seconds" "$words"
    comma=","
  done
  printf ']}\n'
}

if [[ -z $build ]]; then
  build=build/gpu
  step build 400 make_build
fi
find_nvrtc
tenon=$build/bin/tenon
plugin=$build/lib/tenon/plugins/tenon-cuda.so
gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
gpu=${gpu:-no GPU}
torch=$(python3 -c 'import torch; print(torch.__version__)' 2>/dev/null || echo "not installed")

echo "GPU check: $gpu, torch $torch"
step doctor 30 "$tenon" doctor --plugin-path "$(dirname "$plugin")"
if "$tenon" doctor --plugin-path "$(dirname "$plugin")" 2>/dev/null | grep -q 'cuda:0'; then
  step conformance 240 "$tenon" conform "$plugin" --level 1 --verify --jobs 4 --json "$out/conformance.json" \
    --html "$out/conformance.html"
  step sanitizer 120 sanitize
  step bench 180 bench
else
  for name in conformance sanitizer bench; do note "$name" skipped 0 "no device"; done
fi

json >"$out/gpu-check.json"
count() { printf '%s\n' "${rows[@]}" | grep -c "|$1|"; }
failed=$(count failed)
echo "GPU: $(count passed) passed, $failed failed, $(count skipped) skipped in $((SECONDS - started)) s; $out/gpu-check.json"
[[ $failed -eq 0 ]]
