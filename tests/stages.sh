# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# ./dev test: the stages, how long each took, and the closing lines.
# Invariant: a stage that failed shows in the summary and in the status; what was skipped or left out is
# counted by name, never silently. Uses say, die, sane and set_up of cmake/setup.sh.

STAGES=() # "name|minutes|result"
FAILED=0
PASSED_TESTS=0 FAILED_TESTS=0 SKIPPED_TESTS=0 GPU_SKIPPED=0
MINUTES_AT_MOST=30 # of a run without --full, from a clean tree on two cores

# Runs a stage and keeps what it prints in build/log: stage NAME COMMAND...
# Never fails itself (a caller that tested its status would switch `set -e` off inside); STAGE_STATUS tells.
stage() {
  local name=$1 start=$SECONDS log result=ok counts
  shift
  say "$name"
  log=build/log/$((${#STAGES[@]} + 1)).log
  mkdir -p build/log
  set +e
  (set -e; "$@") </dev/null 2>&1 | tee "$log"
  STAGE_STATUS=${PIPESTATUS[0]}
  set -e
  count_tests "$log"
  counts=$(sed -n 's/^full counts: //p' "$log")
  [[ -z $COUNTED ]] || result="$COUNTED${counts:+; $counts}"
  if [[ $STAGE_STATUS -ne 0 ]]; then
    FAILED=1
    result="FAILED (${COUNTED:-status $STAGE_STATUS})"
  fi
  STAGES+=("$name|$(minutes $((SECONDS - start)))|$result")
}

# A stage without which the ones after it make no sense.
needed_stage() {
  stage "$@"
  [[ $STAGE_STATUS -eq 0 ]] || { close_tests || true; exit 1; }
}

minutes() { awk -v seconds="$1" 'BEGIN { printf "%.1f", seconds / 60 }'; }

# Adds the closing lines of ctest in a log to the totals; COUNTED says them in words. A second summary is
# that of run_alone: of what failed in the first, the failures that stay. A run in a bare system has said by itself what
# all of its stages come to.
count_tests() {
  local total=0 failed=0 again=0 skipped count nested missed
  COUNTED=
  nested=$(sed -nE 's/^([0-9]+) tests passed, ([0-9]+) skipped$/\1 \2/p' "$1" | tail -n 1)
  if [[ -n $nested ]]; then
    read -r count skipped <<<"$nested"
    failed=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of [0-9]+.*/\1/p' "$1" | tail -n 1)
    PASSED_TESTS=$((PASSED_TESTS + count)) FAILED_TESTS=$((FAILED_TESTS + failed)) SKIPPED_TESTS=$((SKIPPED_TESTS + skipped))
    COUNTED="$((count + failed + skipped)) tests, $failed failed, $skipped skipped"
    return 0
  fi
  while read -r missed count; do
    failed=$missed  # what `read` reads into is empty behind the last line
    again=$((total > 0 ? count - failed : 0))
    total=$((total > 0 ? total : count))
    COUNTED="$((total - failed)) passed, $failed failed"
  done < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$1")
  FAILED_TESTS=$((FAILED_TESTS + failed))
  PASSED_TESTS=$((PASSED_TESTS + total - failed))
  [[ $again -eq 0 ]] || COUNTED+=", $again of them only when run again alone"
  skipped=$(grep -cE '^[[:space:]]*[0-9]+ - .* \((Skipped|Disabled)\)$' "$1" || true)
  [[ -n $COUNTED && $skipped -gt 0 ]] || return 0
  SKIPPED_TESTS=$((SKIPPED_TESTS + skipped))
  GPU_SKIPPED=$((GPU_SKIPPED + $(grep -cE '^[[:space:]]*[0-9]+ - gpu_.* \(Skipped\)$' "$1" || true)))
  PASSED_TESTS=$((PASSED_TESTS - skipped))
  COUNTED+=", $skipped of them skipped"
}

# What the lines "NAME: N (full run)" in a log of ctest add up to: "full counts: 3000000 operations, 64 streams".
tell_counts() {
  sed -nE 's/^([^:|]+): ([0-9]+) \(full run\)$/\2|\1/p' "$1" |
    awk -F'|' '{ sum[$2] += $1 } END { for (name in sum) printf "%d %s\n", sum[name], name }' |
    sort -k2 | paste -sd, | sed -n 's/,/, /g; s/^./full counts: &/p'
}

# Twice as many as processors: many a test waits, for a deadline or for a process.
run_ctest() {
  local preset=$1 status=0
  shift
  rm -f "build/$preset/Testing/Temporary/"LastTest{,sFailed}.log
  sane ctest --preset "$preset" -j $((2 * $(nproc))) "$@" || run_alone "$preset" || status=1
  tell_counts "build/$preset/Testing/Temporary/LastTest.log"
  return "$status"
}

# A few that failed beside others run again by themselves: a machine that stalls is no fault of the tree. The
# summary counts them; a full run does not ask twice, so what is flaky shows there.
run_alone() {
  local failed="build/$1/Testing/Temporary/LastTestsFailed.log"
  [[ -z ${TENON_TEST_FULL:-} && -f $failed && $(wc -l <"$failed") -le 5 ]] || return 1
  printf '\nfailed, and run again alone:\n%s\n' "$(cut -d: -f2- "$failed")"
  sane ctest --preset "$1" --rerun-failed && rm -f "$failed"
}

# What each failed test said last, once more: between it and the summary there may be thousands of lines.
retell_failures() {
  local failed name preset
  for failed in build/*/Testing/Temporary/LastTestsFailed.log; do
    [[ -f $failed ]] || continue
    preset=${failed#build/} preset=${preset%%/*}
    while IFS=: read -r _ name; do
      printf '\n-- failed: %s (%s)\n' "$name" "$preset"
      NAME=$name awk '/^[0-9]+\/[0-9]+ Testing: / { ours = substr($0, index($0, ": ") + 2) == ENVIRON["NAME"] } ours' \
        "build/$preset/Testing/Temporary/LastTest.log" | grep -vE '^(Command|Directory|Test time|-----|"|<end)' | tail -n 15
    done <"$failed"
  done
}

# What a short run says of its time.
judge_minutes() {
  [[ -z ${TENON_TEST_FULL:-} ]] || return 0
  [[ $SECONDS -gt $((MINUTES_AT_MOST * 60)) ]] && printf '  more than' || printf '  within'
  printf ' the %s minutes of a run from a clean tree on two cores\n' "$MINUTES_AT_MOST"
}

close_tests() {
  local total line
  [[ $FAILED -eq 0 ]] || retell_failures
  say "summary"
  printf '%-34s %8s  %s\n' stage minutes result
  for line in "${STAGES[@]}"; do
    IFS='|' read -r name time result <<<"$line"
    printf '%-34s %8s  %s\n' "$name" "$time" "$result"
  done
  printf '%-34s %8s%s\n' total "$(minutes $SECONDS)" "$(judge_minutes)"
  total=$((PASSED_TESTS + FAILED_TESTS + SKIPPED_TESTS))
  [[ $total -gt 0 ]] || { echo "no test was run"; return 1; }
  printf '\n%d%% tests passed, %d tests failed out of %d\n' $(((total - FAILED_TESTS) * 100 / total)) \
    "$FAILED_TESTS" "$total"
  printf '%d tests passed, %d skipped\n' "$PASSED_TESTS" "$SKIPPED_TESTS"
  printf 'GPU: %d skipped for want of a device\n' "$GPU_SKIPPED"
  [[ $FAILED -eq 0 ]] || echo "a stage failed; see above"
  return "$FAILED"
}

# Emulated, so with the short counts.
run_arm64() { TENON_TEST_FULL=0 run_ctest arm64; }

part_fuzz() {
  stage "fuzz build" build_preset fuzz
  [[ $STAGE_STATUS -ne 0 ]] || stage "readers of text (libFuzzer)" run_ctest fuzz
}

part_arm64() {
  stage "arm64 build (cross, -Werror)" build_preset arm64
  [[ $STAGE_STATUS -ne 0 ]] || stage "unit tests (arm64, under qemu)" run_arm64
}

part_bookworm() { stage "bare bookworm: demo and test" tests/full/chroot.sh bookworm; }
part_trixie() { stage "bare trixie: demo and test" tests/full/chroot.sh trixie; }

# A full run asks for the checks that take longest to compile, too.
build_ci() {
  sane cmake --preset ci -D TENON_SANITIZE_ALL="${full:+ON}"
  build_preset ci
}

part_ci() {
  needed_stage "ci build (ASan, UBSan, -Werror)" build_ci
  stage "tests, house checks, ABI (ci)" run_ctest ci
}

part_tsan() {
  local left_out=(-LE '^(conformance|tsan_full)$')
  [[ -z $full ]] || left_out=()
  stage "tsan build" build_preset tsan --target tenon_tsan_tests ${full:+tenon_tsan_full tenon_cli}
  [[ $STAGE_STATUS -ne 0 ]] || stage "tests (tsan)" run_ctest tsan "${left_out[@]}"
}

part_release() {
  stage "release build" build_preset release
  [[ $STAGE_STATUS -ne 0 ]] || stage "package, binaries, conformance (release)" run_ctest release -L '^release$'
}

# A full run takes hours: what it has shown so far is kept, whatever comes after, for the commit that it began with.
record_stages() { printf '%s\n' "${STAGES[@]}" | /usr/bin/python3 tests/full/record.py "$FULL_COMMIT" || FAILED=1; }

# The minutes of all stages whose name holds a word.
minutes_of() { printf '%s\n' "${STAGES[@]}" | awk -F'|' -v word="$1" '$1 ~ word { sum += $2 } END { printf "%.1f", sum }'; }

# Keeps what a short run from a clean clone took, and how long the build then takes that has nothing to do.
record_short() {
  local total start
  total=$(minutes $SECONDS)
  start=$(date +%s%N)
  build_preset ci >/dev/null || return 1
  printf '%s, %s cores|%s|%s|%s passed, %s failed, %s skipped|%s s\n' "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" \
    "$(nproc)" "$total" "$(minutes_of build)" "$PASSED_TESTS" "$FAILED_TESTS" "$SKIPPED_TESTS" \
    "$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.1f", ns / 1e9 }')" |
    /usr/bin/python3 tests/full/record.py --short
}

# Without options the parts ci and tsan with their short counts.
cmd_test() {
  local full='' record='' option part parts=() all=(ci tsan release fuzz arm64 bookworm trixie)
  for option in "$@"; do
    case $option in
      --full) full=1 ;;
      --no-install) export TENON_NO_INSTALL=1 ;;
      --record) record=1 ;;
      *)
        [[ " ${all[*]} " == *" $option "* ]] || die "test: unknown option '$option'; the parts of --full are ${all[*]}"
        parts+=("$option")
        ;;
    esac
  done
  [[ -n $full || ${#parts[@]} -eq 0 ]] || die "test: '${parts[0]}' is a part of the full run: ./dev test --full ${parts[*]}"
  [[ -z $full || -z $record ]] || die "test: --full keeps its results anyway; --record keeps those of a short run"
  [[ -z $record || ! -e build/ci && ! -e build/tsan ]] || die "test: --record wants a clean clone; remove build/ci and build/tsan"
  [[ -z $record ]] || export CCACHE_DISABLE=1 # what was compiled before would count as built
  [[ -z $full ]] || export TENON_TEST_FULL=1
  [[ -z $full || ${#parts[@]} -gt 0 ]] || parts=("${all[@]}")
  [[ ${#parts[@]} -gt 0 ]] || parts=(ci tsan)
  SECONDS=0
  [[ -z $full ]] || FULL_COMMIT=$(git rev-parse --short HEAD)
  needed_stage "set-up" set_up "$TEST_PACKAGES${full:+$FULL_PACKAGES}"
  for part in "${parts[@]}"; do
    "part_$part"
    [[ -z $full ]] || record_stages
  done
  [[ -z $record ]] || record_short || FAILED=1
  close_tests
}
