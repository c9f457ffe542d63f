#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev demo and ./dev test in a bare Debian, from a clean clone of HEAD: tests/full/chroot.sh SUITE
# (bookworm, trixie). Needs root, debootstrap and a Debian mirror: TENON_MIRROR, or the one this machine's
# own apt uses. TENON_CCACHE may name a folder of ccache to work with, which saves what that compiler has compiled.
# Invariant: the system is made anew and taken away again, whatever happens in between.
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
suite=${1:?which suite? bookworm or trixie}

fail() { echo "chroot.sh: $*" >&2; exit 1; }

# The first Debian mirror in apt's own sources.
mirror_of_apt() {
  local uris
  uris=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{sources,list} 2>/dev/null |
    sed -nE 's/^URIs:[[:space:]]*([^[:space:]]+).*/\1/p; s/^deb([[:space:]]+\[[^]]*\])?[[:space:]]+([^[:space:]]+).*/\2/p' || true)
  grep -m 1 -E '/debian/?$' <<<"$uris" || echo http://deb.debian.org/debian
}

clean_up() {
  local place
  for place in root/.cache/ccache dev/shm dev/pts dev sys proc; do
    ! mountpoint -q "$root/$place" || umount -l "$root/$place"
  done
  rm -rf --one-file-system "$root"
}

make_system() {
  debootstrap --variant=minbase "$suite" "$root" "$mirror" || {
    tail -n 20 "$root/debootstrap/debootstrap.log" >&2 || true
    fail "debootstrap $suite from $mirror failed"
  }
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp -L /etc/hosts "$root/etc/hosts"
  ! compgen -G '/etc/apt/apt.conf.d/*proxy*' >/dev/null || cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/"
  mount -t proc proc "$root/proc"
  mount --bind /sys "$root/sys"
  mount --bind /dev "$root/dev"
  mkdir -p "$root/dev/pts" "$root/dev/shm"
  ! mountpoint -q /dev/pts || mount --bind /dev/pts "$root/dev/pts"
  ! mountpoint -q /dev/shm || mount --bind /dev/shm "$root/dev/shm"
  [[ -z ${TENON_CCACHE:-} ]] || { mkdir -p "$root/root/.cache/ccache"; mount --bind "$TENON_CCACHE" "$root/root/.cache/ccache"; }
}

# Runs a line inside, with nothing of this machine's environment but its way to the network.
inside() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb CI=true \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$root" /bin/bash -euo pipefail -c "$1" </dev/null
}

[[ $(id -u) -eq 0 ]] || fail "needs root"
command -v debootstrap >/dev/null || fail "debootstrap is not installed"
mirror=${TENON_MIRROR:-$(mirror_of_apt)}
root=$(mktemp -d "${TMPDIR:-/var/tmp}/tenon-$suite-XXXXXX")
trap clean_up EXIT
trap 'exit 130' INT TERM

echo "chroot.sh: $suite from $mirror in $root"
make_system
git clone -q --no-hardlinks "$tree" "$root/srv/checkout"
echo "chroot.sh: commit $(git -C "$root/srv/checkout" rev-parse --short HEAD)"
inside 'cd /srv/checkout && ./dev demo'
inside 'cd /srv/checkout && ./dev test'
echo "chroot.sh: $suite: demo and test passed"
