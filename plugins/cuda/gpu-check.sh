#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show, in one call of under ten minutes.
#
#   plugins/cuda/gpu-check.sh [--build DIR] [--out DIR] [--seconds N] [--sample N]
#
# --build takes a release build that is there already (its bin/ and lib/); without it one is made in build/gpu.
# --out is where the figures go (default build/gpu-check): gpu-check.json, the reports of its steps, and their logs.
# --seconds is what all steps have together (default 580); what has not begun by then is skipped.
# --sample is of how many cases of the kit beyond level 0 one is run (default 6; 1, all of them, takes more --seconds).
# Invariant: a step that cannot run here says so and is counted as skipped; the script fails when a step failed or did not
# end in its time, and never because a target was missed.
set -uo pipefail
written=$(printf ' %q' "$0" "$@")  # as it was called
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2

build=""
out=build/gpu-check
limit=580
sample=6
while [[ $# -gt 0 ]]; do
  case $1 in
    --build) build=${2:?--build needs a folder}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --seconds) limit=${2:?--seconds needs a number}; shift ;;
    --sample) sample=${2:?--sample needs a number}; shift ;;
    *) echo "gpu-check: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"
out=$(realpath "$out")
started=$SECONDS
rows=()  # name|passed, failed or skipped|seconds|words

# Words fit for JSON and for a row.
plain() { tr -d '"\\\t|'; }

# The last line of a log that has anything on it.
last_words() { grep -v '^[[:space:]]*$' "$1" | tail -n 1 | plain | cut -c1-160; }

note() {
  rows+=("$1|$2|$3|$4")
  printf '  %-22s %-8s %4s s  %s\n' "$1" "$2" "$3" "$4"
}

# step NAME SECONDS COMMAND…: runs it with a deadline, which all that is left may shorten; status 77 is a skip. The command
# may be a function of this file: it runs in a shell of its own, since `timeout` starts programs only.
step() {
  local name=$1 deadline=$2 begin=$SECONDS status=0 verdict=passed
  local left=$((limit - (SECONDS - started)))
  shift 2
  [[ $limit -le 580 ]] || deadline=$((deadline * limit / 580))
  if [[ $left -le 0 ]]; then
    note "$name" skipped 0 "none of the $limit s was left"
    return
  fi
  [[ $deadline -le $left ]] || deadline=$left
  timeout --kill-after=10 "$deadline" bash -c '"$@"' step "$@" >"$out/$name.log" 2>&1 || status=$?
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

# Whether a library, by a pattern of its name, is where the plugin looks for it.
is_there() {
  ldconfig -p 2>/dev/null | grep -q "${1//./\\.}" && return
  local folder
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64"
  for folder in "${folders[@]}"; do
    [[ -n $folder ]] && compgen -G "$folder/$1" >/dev/null && return
  done
  return 1
}

# Libraries as torch's packages bring them come first: they are newer than most toolkits', and the peer's own.
find_libraries() {
  local library found folder
  while read -r folder; do
    LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  done < <(timeout 60 python3 -c 'import importlib.util as u, pathlib
torch = u.find_spec("torch")
if torch: print(*pathlib.Path(torch.origin).parents[1].glob("nvidia/*/lib"), sep="\n")' 2>/dev/null | grep '^/')
  export LD_LIBRARY_PATH
  for library in 'libnvrtc.so.1[23]' 'libcublasLt.so.1[23]' libcudnn.so.9 libnccl.so.2; do
    is_there "$library" && continue
    found=$(timeout 20 find /usr/local /opt /usr/lib "$HOME" -name "$library" -not -path '*/stubs/*' 2>/dev/null | head -n 1)
    [[ -n $found ]] || continue
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$found")"
    export LD_LIBRARY_PATH
  done
}

# Accesses outside of memory, then races in what threads of a block share.
sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "SKIPPED: compute-sanitizer is not installed"; return 77; }
  local tool cases=(--filter 'op sum: f32*' --filter 'op softmax: f32*' --filter 'op layer_norm: bf16*'
                    --filter 'op batch_norm_train: f32*' --filter 'op embedding_grad: f32*' --filter 'op adam: f32*')
  for tool in memcheck racecheck; do
    compute-sanitizer --tool "$tool" --target-processes all --error-exitcode 1 "$tenon" conform "$plugin" --level 1 --quick \
      --jobs 1 --together 20 --deadline 120 --filter 'memory*' --filter 'copy*' --filter 'op add: f32*' --filter 'op cast: f32*' "${cases[@]}" || return
  done
}

# Levels 0 to 4, at small sizes.
conformance() {
  "$tenon" conform "$plugin" --level 4 --quick --sample "$sample" --verify --jobs "$jobs" --together 8 --json "$out/conformance.json" \
    --html "$out/conformance.html"
}

# All that NVIDIA's libraries compute.
libraries() {
  "$tenon" conform "$plugin" --level 2 --quick --verify --jobs "$jobs" --together 8 --json "$out/libraries.json" --filter 'op matmul:*' \
    --filter 'op conv2d*' --filter 'op attention*' --filter 'gradient matmul*' --filter 'gradient conv2d*' \
    --filter 'fused matmul*' --filter 'fused conv2d*' --filter 'fused attention*'
}

# Ranks that are threads and share the device: that what they say to each other is right, not how fast.
collectives() {
  local group groups=()
  for group in abort 'all_*' barrier broadcast communicator deterministic message mismatch numbers 'reduce*' send_recv split submit; do
    groups+=(--filter "$group: *")
  done
  "$tenon" conform "$plugin" --level 3 --quick --jobs "$jobs" --together 8 "${groups[@]}"
}

# The same with NCCL, which takes one rank of a device: cases of one rank are its, the others go on as threads. What it joined
# it writes into logs of its own; without a word there threads did all of it, and NCCL has shown nothing.
nccl() {
  is_there libnccl.so.2 || { echo "SKIPPED: libnccl.so.2 is not installed"; return 77; }
  rm -f "$out"/nccl-joined.*
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT NCCL_DEBUG_FILE="$out/nccl-joined.%p" TENON_CUDA_COMM=nccl \
    "$tenon" conform "$plugin" --level 3 --quick --jobs 1 --filter 'all_reduce: f32*' || return
  grep -qs 'Init COMPLETE' "$out"/nccl-joined.* && return
  echo "SKIPPED: NCCL joined no communicator, threads did: it needs version 2.28, a plugin built with nccl.h, no cuda.nccl=off"
  return 77
}

# A missed target (status 1) stands in the report and is no failure here; no report is one.
bench() {
  local status=0
  rm -f "$out/bench.json"
  python3 tests/bench/bench.py cuda --bin "$build/bin" --json "$out/bench.json" || status=$?
  [[ $status -le 1 && -s $out/bench.json ]]
}

json() {
  local row name verdict seconds words comma=""
  printf '{"date": "%s", "commit": "%s", "command": "%s",\n' "$(date -u +%F)" \
    "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" "$(plain <<<"${written# }")"
  printf ' "gpu": "%s", "driver": "%s",\n' "$gpu" "$driver"
  printf ' "cuda": "%s", "nvrtc": "%s", "torch": "%s",\n "steps": [' "$cuda" "$nvrtc" "$torch"
  for row in "${rows[@]}"; do
    IFS='|' read -r name verdict seconds words <<<"$row"
    printf '%s\n  {"name": "%s", "verdict": "%s", "seconds": %s, "words": "%s"}' "$comma" "$name" "$verdict" \
      "$seconds" "$words"
    comma=","
  done
  printf ']}\n'
}

export -f make_build is_there sanitize conformance libraries collectives nccl bench
# A driver makes the contexts of all processes, of 32 queues, one after another: with eight at once each takes eight seconds, with
# sixteen a case waits for longer than it may take. So groups of cases share processes, too.
jobs=$(($(nproc) < 8 ? $(nproc) : 8))
if [[ -z $build ]]; then
  build=build/gpu
  step build 400 make_build
fi
find_libraries
build=$(realpath -m "$build")  # a path that depends on the working directory is refused by the loader
tenon=$build/bin/tenon
plugin=$build/lib/tenon/plugins/tenon-cuda.so
# What was built elsewhere has that place's folder written into it.
TENON_BENCH_PLUGIN_DIR=$(dirname "$plugin")
export build out jobs sample tenon plugin TENON_BENCH_PLUGIN_DIR

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | plain)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 | plain)
torch=$(timeout 60 python3 -c 'import torch; print(torch.__version__)' 2>/dev/null || echo "not installed")
step doctor 30 "$tenon" doctor --plugin-path "$(dirname "$plugin")"
# "GPU, …, driver CUDA 13.0, NVRTC 13.0", in the lines of cuda:0.
told=$(sed -n '/cuda:0/,/driver CUDA/p' "$out/doctor.log" 2>/dev/null | plain)
cuda=$(sed -n 's/.*driver CUDA \([0-9.]*\).*/\1/p' <<<"$told" | head -n 1)
nvrtc=$(sed -n 's/.*NVRTC \([0-9.]*\).*/\1/p' <<<"$told" | head -n 1)
gpu=${gpu:-$(sed -n 's/.*cuda:0 *//p' <<<"$told" | head -n 1)}
gpu=${gpu:-no GPU} driver=${driver:-unknown} cuda=${cuda:-none} nvrtc=${nvrtc:-none}
echo "GPU check: $gpu, driver $driver, CUDA $cuda, NVRTC $nvrtc, torch $torch"

if [[ $cuda != none ]]; then
  step bench 190 bench
  step conformance 140 conformance
  step libraries 60 libraries
  step collectives 80 collectives
  step nccl 30 nccl
  step sanitizer 100 sanitize
else
  for name in bench conformance libraries collectives nccl sanitizer; do note "$name" skipped 0 "no device"; done
fi

json >"$out/gpu-check.json"
count() { printf '%s\n' "${rows[@]}" | grep -c "|$1|"; }
failed=$(count failed)
echo "GPU: $(count passed) passed, $failed failed, $(count skipped) skipped in $((SECONDS - started)) s; $out/gpu-check.json"
[[ $failed -eq 0 ]]
