# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Set-up of ./dev: the packages this tree needs, why, and how they get there.
# Invariant: nothing is installed without its name and reason on the screen, and nothing at all with
# --no-install. The table below is the only list of packages in the repository.

# package | why. LLVM stands for the clang version chosen on this system. A name that starts with ? is
# wished for, not needed: where the system does not have it, what needs it says so and is skipped.
PACKAGES='
cmake             | configures the build
ninja-build       | runs the build
make              | what cmake uses where nobody names a generator, as in the documents
g++               | compiles everything
clang-LLVM        | compiles the ThreadSanitizer build and the fuzzers
libclang-rt-LLVM-dev | the sanitizer run-times of that clang, and libFuzzer
libomp-LLVM-dev   | the OpenMP run-time ThreadSanitizer understands, with Archer
?clang-format-14  | ./dev fmt (other versions format differently)
?clang-tidy-14    | ./dev lint
ccache            | repeated builds
mold              | fast linking
pkg-config        | tests the installed tenon.pc
?libxbyak-dev     | generates code for elementwise passes of the CPU plugin (header-only, x86-64)
?libgloo-dev      | carries communicators of the CPU plugin between hosts
libdnnl-dev       | oneDNN: matmul, convolution and normalisation of the CPU plugin
libtomlplusplus-dev | reads manifests and options (header-only)
libcli11-dev      | command line of the tenon program
nlohmann-json3-dev | reports of the tenon program
doctest-dev       | tests
libbenchmark-dev  | benchmarks
libmimalloc-dev   | a peer of the pool benchmark
abigail-tools     | compares the ABI with its baseline
shellcheck        | checks the scripts
binutils          | readelf and nm in the tests of the built libraries
file              | names file types in messages of the tests
python3           | house checks, benchmark reports
git               | lists the files of the tree
ca-certificates   | lets git and apt trust https
'
# Only for ./dev test.
# shellcheck disable=SC2034
TEST_PACKAGES='
?chromium-headless-shell | looks at the HTML report (about 100 MB)
'
# Only for ./dev test --full.
# shellcheck disable=SC2034
FULL_PACKAGES='
debootstrap       | makes the bare systems of the full test
g++-aarch64-linux-gnu | compiles for arm64
qemu-user-static  | runs what was compiled for arm64
'
# Only for ./dev bench SUITE --peers: of suites with peers in Python, and of comm.
# shellcheck disable=SC2034
PEER_PACKAGES='
python3-venv      | keeps the peers from PyPI apart from the system
'
# shellcheck disable=SC2034
COMM_PEER_PACKAGES='
openmpi-bin       | a peer of the collectives: Open MPI
libopenmpi-dev    | compiles a rank of it
mpich             | a peer of the collectives: MPICH
libmpich-dev      | compiles a rank of it
'

say() { printf '\n== %s\n' "$*"; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }

installed() { [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]; }
available() { [[ -n $(apt-cache madison "$1" 2>/dev/null) ]]; }

# The clang version of this system: 14, which the tree is checked with, or the next one there is.
llvm_version() {
  local test version
  for test in installed available; do
    for version in 14 18 19 17 16; do
      ! $test "clang-$version" || { echo "$version"; return; }
    done
  done
  echo 14
}

# Prints "package | why" for each line of the table(s) given that is not installed.
missing_packages() {
  local name why llvm
  llvm=$(llvm_version)
  while IFS='|' read -r name why; do
    name=${name// /}
    name=${name/LLVM/$llvm}
    [[ -n $name ]] || continue
    ! installed "${name#\?}" || continue
    printf '%s |%s\n' "$name" "$why"
  done <<<"$*"
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    command -v sudo >/dev/null || die "not root and no sudo; as root, run: $*"
    sudo "$@"
  fi
}

# Splits a list of missing packages into those to install; tells about wishes that cannot be had.
wanted_packages() {
  local name
  while IFS='|' read -r name _; do
    name=${name// /}
    if [[ $name != \?* ]]; then
      [[ -z $name ]] || echo "$name"
    elif available "${name#\?}"; then
      echo "${name#\?}"
    else
      echo "dev: ${name#\?} is not available on this system; what needs it is skipped" >&2
    fi
  done <<<"$1"
}

# Brings the packages of the given table(s).
install_missing() {
  local missing needed wanted
  missing=$(missing_packages "$@")
  needed=$(grep -v -e '^?' -e '^$' <<<"$missing" || true)
  if [[ -n $needed && -n ${TENON_NO_INSTALL:-} ]]; then
    printf '%s\n' "$needed" >&2
    die "packages are missing and --no-install was given; as root, run:" \
      "apt-get install $(wanted_packages "$needed" | xargs)"
  fi
  if [[ -n $needed ]]; then
    say "set-up: asking apt what there is"
    as_root apt-get update -q
    missing=$(missing_packages "$@") # now the lists tell which clang there is
  fi
  mapfile -t wanted < <(wanted_packages "$missing")
  if [[ ${#wanted[@]} -eq 0 || -n ${TENON_NO_INSTALL:-} ]]; then
    say "set-up: every needed package is there"
    return
  fi
  say "set-up: installing with apt"
  printf '%s\n' "${missing//\?/}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${wanted[@]}" \
    </dev/null || [[ -z $needed ]] ||
    die "apt could not install what is needed; see above"
}

# set_up EXTRA: the packages of the table, and those of a second one.
set_up() {
  if ! command -v dpkg-query >/dev/null; then
    say "set-up: no dpkg here; Debian 12, 13 and Ubuntu 24.04 are what this script knows. Needed:"
    printf '%s' "$PACKAGES"
    return
  fi
  install_missing "$PACKAGES" "$1"
}

# Runs a command with the address-space layout that sanitizers of this age can live with: with more than 28
# random bits they die at start on some kernels.
sane() {
  local bits
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
  if [[ $bits -gt 28 ]] && setarch -R true 2>/dev/null; then
    setarch -R "$@"
  else
    "$@"
  fi
}
