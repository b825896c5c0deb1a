#!/bin/sh
# Put etcd and h2load into .etcd/ of this repository: the oracle of `make oracle`, and the baseline of
# `make bench-metastore` with a load client that costs next to nothing. The Debian packages are
# downloaded and unpacked, not installed: no root is needed, no service is started, and `make clean`
# removes it. Says why, and fails, where there is no apt or no such package.
set -eu

cd "$(dirname "$0")/.."
target=.etcd
programs="etcd etcdctl h2load"
packages="etcd-server etcd-client nghttp2-client libnghttp2-14 libev4 libjansson4 libjemalloc2"

missing=
for program in $programs; do
    [ -x "$target/usr/bin/$program" ] || missing="$missing $program"
done
if [ -z "$missing" ]; then
    exit 0
fi
for tool in apt-get dpkg-deb; do
    if ! command -v "$tool" >/dev/null; then
        echo "$missing cannot be had here: there is no $tool. Put them into" \
            "$target/usr/bin/ by hand." >&2
        exit 1
    fi
done

folder=$(mktemp -d)
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
for package in $packages; do
    if ! (cd "$folder" && apt-get download --quiet=2 "$package"); then
        echo "$missing cannot be had here: apt has no package $package; try apt-get update." >&2
        exit 1
    fi
done
for file in "$folder"/*.deb; do
    dpkg-deb --extract "$file" "$target"
done
"$target/usr/bin/etcd" --version | head -1
