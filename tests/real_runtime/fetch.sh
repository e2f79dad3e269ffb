#!/bin/sh
# Downloads the programs of the real-runtime tests (containerd 1.6, 1.7 and 2.x, one runc) and builds a small image.
#
# Each containerd comes from the Debian suite that ships it. The script uses its own apt state and unpacks the packages into a
# cache folder. It installs nothing and does not change the system's package lists.
#
#   usage: fetch.sh            (root; needs apt, dpkg-deb, tar, flock: all part of a minimal Debian)
#   PLEGCTL_RUNTIME_CACHE      the cache folder; default: .cache/real-runtime in the checkout
#
# If the cache is complete, the script does nothing, so every test run may call it first.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${PLEGCTL_RUNTIME_CACHE:-$here/../../.cache/real-runtime}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

die() {
    echo "fetch.sh: $*" >&2
    exit 1
}

# The machine's own Debian mirror: the first enabled source that offers its release's `main`, in either file format.
machine_mirror() {
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        # A stanza may contain comment lines; sed removes them before awk splits the file at blank lines.
        sed '/^#/d' "$file" | awk -v suite="$codename" '
            BEGIN { RS = ""; FS = "\n" }
            {
                split("", field)
                for (i = 1; i <= NF; i++)
                    if (match($i, /^[A-Za-z-]+:/)) {
                        key = tolower(substr($i, 1, RLENGTH - 1))
                        field[key] = " " substr($i, RLENGTH + 1) " "
                    }
                if (field["enabled"] !~ / no / && field["types"] ~ / deb / &&
                    field["components"] ~ / main / && index(field["suites"], " " suite " ")) {
                    split(field["uris"], uri, " ")
                    print uri[1]
                    exit
                }
            }'
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$file" ] || continue
        sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}//p' "$file" |
            awk -v suite="$codename" '$2 == suite && / main/ { print $1; exit }'
    done
}

# private_apt SUITE ARGUMENT...: runs apt-get for one suite. It shares only proxy and transport settings with the system.
private_apt() {
    suite=$1
    shift
    apt-get -q -c "$work/apt/$suite/apt.conf" "$@"
}

prepare_suite() {
    suite=$1
    dir=$work/apt/$suite
    mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/deb"
    : >"$dir/status"
    echo "deb [signed-by=$keyring] $mirror $suite main" >"$dir/sources.list"
    # Removes the system's hooks, because some of them clean up the system's caches after every update.
    cat >"$dir/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::SourceList "$dir/sources.list";
Dir::Etc::SourceParts "$work/apt/none";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "$work/apt/none";
Dir::State "$dir/state";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
    private_apt "$suite" update ||
        die "cannot read $suite from $mirror; if its signature is unknown, this machine's debian-archive-keyring is too old"
}

# unpack SUITE TARGET PACKAGE...: downloads the packages of that suite (apt checks their hashes) and unpacks them.
unpack() {
    suite=$1
    target=$work/$2
    shift 2
    mkdir -p "$target"
    for package in "$@"; do
        rm -f "$work/apt/$suite/deb/"*.deb
        (cd "$work/apt/$suite/deb" && private_apt "$suite" download "$package")
        dpkg-deb -x "$work/apt/$suite/deb/"*.deb "$target"
    done
}

# check_version FOLDER VERSION: fails if this containerd does not run here, for example because Debian built it for a newer
# libc, or if it has another version.
check_version() {
    version=$("$work/$1/usr/bin/containerd" --version) || die "$1 does not run on this machine"
    case $version in
    *" $2"*) echo "fetch.sh: $1 is $version" ;;
    *) die "$1 is not containerd $2: $version" ;;
    esac
}

# write_config NAME ENTRYPOINT: writes the configuration of an image with the shared layer into a file named by its hash.
write_config() {
    printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":%s,"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[]}' \
        "$(dpkg --print-architecture)" "$2" "$layer" >"$image/config"
    hash=$(sha256sum "$image/config" | cut -d' ' -f1)
    mv "$image/config" "$image/$hash.json"
    entries="$entries${entries:+,}{\"Config\":\"$hash.json\",\"RepoTags\":[\"registry.local/$1:1\"],\"Layers\":[\"$layer/layer.tar\"]}"
}

# Builds a docker-archive with a pause image and a shell image, which contain only static busybox. The name `registry.local`
# does not resolve, so that a pull by mistake fails at once.
build_image() {
    image=$work/image
    mkdir -p "$image/rootfs/bin" "$image/rootfs/tmp" "$image/rootfs/etc"
    cp "$work/tools/bin/busybox" "$image/rootfs/bin/busybox" 2>/dev/null ||
        cp "$work/tools/usr/bin/busybox" "$image/rootfs/bin/busybox"
    for applet in sh sleep true false cat echo ls; do
        ln -s busybox "$image/rootfs/bin/$applet"
    done
    tar --create --file "$image/layer.tar" --directory "$image/rootfs" \
        --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name .
    layer=$(sha256sum "$image/layer.tar" | cut -d' ' -f1)
    mkdir "$image/$layer"
    mv "$image/layer.tar" "$image/$layer/layer.tar"
    rm -r "$image/rootfs"
    entries=
    write_config pause '["/bin/sleep","1000000"]'
    write_config busybox '["/bin/sh"]'
    printf '[%s]' "$entries" >"$image/manifest.json"
    (cd "$image" && tar --create --file "$work/image.tar" -- *)
    rm -r "$image"
}

recipe=$(sha256sum <"$0")
if [ "$(cat "$cache/complete" 2>/dev/null)" = "$recipe" ]; then
    exit 0
fi

[ "$(id -u)" = 0 ] || die "needs root"
[ -r "$keyring" ] || die "no $keyring: not a Debian machine, or debian-archive-keyring is missing"
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
exec 9>"$cache/lock"
flock 9
# Another run may have completed the cache while this one waited for the lock.
if [ "$(cat "$cache/complete" 2>/dev/null)" = "$recipe" ]; then
    exit 0
fi

mirror=$(machine_mirror | head -n 1)
[ -n "$mirror" ] || die "no Debian mirror in /etc/apt for this release"
export DEBIAN_FRONTEND=noninteractive
rm -rf "$cache/work"
work=$cache/work
mkdir -p "$work/apt/none"
trap 'rm -rf "$work"' EXIT

for suite in bookworm trixie sid; do
    prepare_suite "$suite"
done
unpack bookworm containerd-1.6 containerd
unpack trixie containerd-1.7 containerd
unpack sid containerd-2 containerd
# All three use the oldest runc, because it needs the oldest libc.
unpack bookworm tools runc libseccomp2 busybox-static
check_version containerd-1.6 1.6.
check_version containerd-1.7 1.7.
check_version containerd-2 2.
build_image

rm -f "$cache/complete"
for part in containerd-1.6 containerd-1.7 containerd-2 tools image.tar; do
    rm -rf "${cache:?}/$part"
    mv "$work/$part" "$cache/$part"
done
echo "$recipe" >"$cache/complete"
