# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# ./dev test: the stages, how long each took, and the closing lines.
# Invariant: a stage that failed shows in the summary and in the status; what was skipped or left out is
# counted by name, never silently. Uses say, die, sane and set_up of cmake/setup.sh.

STAGES=() # "name|minutes|result"
FAILED=0
PASSED_TESTS=0 FAILED_TESTS=0 SKIPPED_TESTS=0 GPU_SKIPPED=0

# Runs a stage and keeps what it prints in build/log: stage NAME COMMAND...
# Never fails itself (a caller that tested its status would switch `set -e` off inside); STAGE_STATUS tells.
stage() {
  local name=$1 start=$SECONDS log result=ok
  shift
  say "$name"
  log=build/log/$((${#STAGES[@]} + 1)).log
  mkdir -p build/log
  set +e
  (set -e; "$@") </dev/null 2>&1 | tee "$log"
  STAGE_STATUS=${PIPESTATUS[0]}
  set -e
  count_tests "$log"
  [[ -z $COUNTED ]] || result=$COUNTED
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

# Adds the closing lines of ctest in a log to the totals; COUNTED says them in words.
count_tests() {
  local total failed skipped
  COUNTED=
  while read -r failed total; do
    FAILED_TESTS=$((FAILED_TESTS + failed))
    PASSED_TESTS=$((PASSED_TESTS + total - failed))
    COUNTED="$((total - failed)) passed, $failed failed"
  done < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1 \2/p' "$1")
  skipped=$(grep -cE '^[[:space:]]*[0-9]+ - .* \((Skipped|Disabled)\)$' "$1" || true)
  [[ -n $COUNTED && $skipped -gt 0 ]] || return 0
  SKIPPED_TESTS=$((SKIPPED_TESTS + skipped))
  GPU_SKIPPED=$((GPU_SKIPPED + $(grep -cE '^[[:space:]]*[0-9]+ - gpu_.* \(Skipped\)$' "$1" || true)))
  PASSED_TESTS=$((PASSED_TESTS - skipped))
  COUNTED+=", $skipped of them skipped"
}

run_ctest() {
  local preset=$1
  shift
  rm -f "build/$preset/Testing/Temporary/"LastTest{,sFailed}.log
  sane ctest --preset "$preset" -j "$(nproc)" "$@"
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

close_tests() {
  local total line
  [[ $FAILED -eq 0 ]] || retell_failures
  say "summary"
  printf '%-34s %8s  %s\n' stage minutes result
  for line in "${STAGES[@]}"; do
    IFS='|' read -r name time result <<<"$line"
    printf '%-34s %8s  %s\n' "$name" "$time" "$result"
  done
  printf '%-34s %8s\n' total "$(minutes $SECONDS)"
  total=$((PASSED_TESTS + FAILED_TESTS + SKIPPED_TESTS))
  [[ $total -gt 0 ]] || { echo "no test was run"; return 1; }
  printf '\n%d%% tests passed, %d tests failed out of %d\n' $(((total - FAILED_TESTS) * 100 / total)) \
    "$FAILED_TESTS" "$total"
  printf '%d tests passed, %d skipped\n' "$PASSED_TESTS" "$SKIPPED_TESTS"
  printf 'GPU: %d skipped for want of a device\n' "$GPU_SKIPPED"
  [[ $FAILED -eq 0 ]] || echo "a stage failed; see above"
  return "$FAILED"
}

# Keeps what the full run showed, between the two marks of docs/testing.md.
record_full_run() {
  local page=docs/testing.md begin='<!-- last full run: begin -->' end='<!-- last full run: end -->' table
  grep -qF "$begin" "$page" || { echo "record: $page has no '$begin'"; return 1; }
  table=$(
    printf '%s\n\nCommit %s, %s, on %s cores: %d tests passed, %d failed, %d skipped.\n\n' "$begin" \
      "$(git rev-parse --short HEAD)" "$(date -u +%Y-%m-%d)" "$(nproc)" "$PASSED_TESTS" "$FAILED_TESTS" \
      "$SKIPPED_TESTS"
    printf '| stage | minutes | result |\n|---|---|---|\n'
    printf '%s\n' "${STAGES[@]}" | sed -E 's/^(.*)\|(.*)\|(.*)$/| \1 | \2 | \3 |/'
    printf '\n%s' "$end"
  )
  TABLE=$table awk -v begin="$begin" -v end="$end" '
    $0 == begin { print ENVIRON["TABLE"]; skip = 1 }
    !skip { print }
    $0 == end { skip = 0 }' "$page" >"$page.new"
  mv "$page.new" "$page"
}

# Emulated, so with the short counts.
run_arm64() { TENON_TEST_FULL=0 run_ctest arm64; }

full_stages() {
  local suite
  stage "fuzz build" build_preset fuzz
  [[ $STAGE_STATUS -ne 0 ]] || stage "readers of text (libFuzzer)" run_ctest fuzz
  stage "arm64 build (cross, -Werror)" build_preset arm64
  [[ $STAGE_STATUS -ne 0 ]] || stage "unit tests (arm64, under qemu)" run_arm64
  for suite in bookworm trixie; do
    stage "bare $suite: demo and test" tests/full/chroot.sh "$suite"
  done
  record_full_run || FAILED=1
}

cmd_test() {
  local full='' option released=tenon_product in_tsan=(-LE '^conformance$')
  for option in "$@"; do
    case $option in
      --full) full=1 ;;
      --no-install) export TENON_NO_INSTALL=1 ;;
      *) die "test: unknown option '$option'" ;;
    esac
  done
  if [[ -n $full ]]; then
    export TENON_TEST_FULL=1
    released=all in_tsan=()
  fi
  SECONDS=0
  needed_stage "set-up" set_up "$TEST_PACKAGES${full:+$FULL_PACKAGES}"
  needed_stage "release build" build_preset release --target "$released"
  needed_stage "ci build (ASan, UBSan, -Werror)" build_preset ci
  stage "tests, house checks, ABI (ci)" run_ctest ci
  stage "package and binaries (release)" run_ctest release -L '^release$'
  stage "tsan build" build_preset tsan --target tenon_tsan_tests ${full:+tenon_cli}
  [[ $STAGE_STATUS -ne 0 ]] || stage "tests (tsan)" run_ctest tsan "${in_tsan[@]}"
  [[ -z $full ]] || full_stages
  close_tests
}
