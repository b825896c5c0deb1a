#!/bin/sh
# Put etcd into .etcd/ of this repository: the oracle of `make oracle` and the baseline of the
# metastore's benchmark. The Debian packages are downloaded and unpacked, not installed: no root is
# needed, no service is started, and `make clean` removes it. Says why, and fails, where there is no
# apt or no such package.
set -eu

cd "$(dirname "$0")/.."
target=.etcd

if [ -x "$target/usr/bin/etcd" ] && [ -x "$target/usr/bin/etcdctl" ]; then
    exit 0
fi
for tool in apt-get dpkg-deb; do
    if ! command -v "$tool" >/dev/null; then
        echo "etcd cannot be had here: there is no $tool. Put etcd and etcdctl into" \
            "$target/usr/bin/ by hand." >&2
        exit 1
    fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for package in etcd-server etcd-client; do
    if ! (cd "$folder" && apt-get download --quiet=2 "$package"); then
        echo "etcd cannot be had here: apt has no package $package; try apt-get update." >&2
        exit 1
    fi
done
for file in "$folder"/*.deb; do
    dpkg-deb --extract "$file" "$target"
done
"$target/usr/bin/etcd" --version | head -1
