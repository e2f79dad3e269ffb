#!/bin/sh
# Takes a private containerd apart, whatever state it is in.
#
#   reap.sh watch DIR    own DIR and clean it up when standard input ends, that is when the test process is gone, however
#                        it went; prints `ready` once DIR exists
#   reap.sh sweep BASE   clean up the directories under BASE whose watcher was itself killed
#
# A directory belongs to whoever holds the lock on DIR.lock. Only processes, mounts and cgroups that carry DIR's own path
# or name are touched.
set -u

# fsfreeze is not in everybody's path.
PATH=$PATH:/usr/sbin:/sbin

# Ctrl-C at the terminal goes to the test alone; this script has to outlive it.
trap '' INT TERM HUP

# The processes whose command line names DIR: the daemon (`-c DIR/...`) and its shims (`-address DIR/...`).
pids_naming() {
    # The arguments in a command line end in NUL, so each is one of grep's lines. Our own do not name the files: grep
    # would find itself.
    printf '%s\n' "$1/config.toml" "$1/containerd.sock" |
        grep -l -z -x -F -f - /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3
}

# The cgroups above all of this instance's pods, one in each hierarchy.
cgroups_of() {
    for tree in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
        [ ! -d "$tree" ] || echo "$tree"
    done
}

# The processes in them.
pids_in_cgroups_of() {
    cgroups_of "$1" | while read -r tree; do
        find "$tree" -name cgroup.procs -exec cat {} +
    done 2>/dev/null | sort -u
}

# Whoever waits for a frozen file system does not even die of SIGKILL.
thaw_under() {
    cut -d' ' -f2 /proc/self/mounts | grep "^$1/" | xargs -r -n 1 fsfreeze --unfreeze
} 2>/dev/null

kill_everything() {
    thaw_under "$1"
    # The daemon goes with the first round, so nothing starts a shim again while the later rounds look for stragglers.
    pids_naming "$1" | xargs -r kill -KILL
    # A frozen process does not even die of SIGKILL on cgroup v1.
    cgroups_of "$2" | while read -r tree; do
        find "$tree" -name freezer.state -exec sh -c 'for file; do echo THAWED >"$file"; done' sh {} +
        find "$tree" -name cgroup.freeze -exec sh -c 'for file; do echo 0 >"$file"; done' sh {} +
    done
    pids_in_cgroups_of "$2" | xargs -r kill -KILL
} 2>/dev/null

still_running() {
    [ -n "$(pids_naming "$1")" ] || [ -n "$(pids_in_cgroups_of "$2")" ]
}

# What a shim keeps outside of DIR: runc's state, and a socket that is named by a hash. A killed shim cannot remove its
# own, and containerd forgets the bundle, so whoever killed it wrote the IDs down in DIR/shims.
forget_shims() {
    {
        ls "$1/state/io.containerd.runtime.v2.task/k8s.io"
        cat "$1/shims"
    } 2>/dev/null | while read -r id; do
        rm -rf "/run/containerd/runc/k8s.io/$id"
        hash=$(printf %s "$1/containerd.sock/k8s.io/$id" | sha256sum)
        rm -f "/run/containerd/s/${hash%% *}"
    done
}

unmount_under() {
    # Latest mount first, so that nothing is mounted on top of what goes.
    for force in "" -l; do
        cut -d' ' -f2 /proc/self/mounts | grep "^$1/" | tac | xargs -r umount $force
    done 2>/dev/null
}

reap() {
    dir=$1
    name=${dir##*/}
    rounds=0
    kill_everything "$dir" "$name"
    while still_running "$dir" "$name" && [ "$rounds" -lt 50 ]; do
        sleep 0.1
        rounds=$((rounds + 1))
        kill_everything "$dir" "$name"
    done
    forget_shims "$dir"
    unmount_under "$dir"
    cgroups_of "$name" | while read -r tree; do
        find "$tree" -depth -type d -exec rmdir {} +
    done 2>/dev/null
    # Never across a mount that did not go away.
    rm -rf --one-file-system "$dir"
    rm -f "$dir.lock"
}

case $1 in
watch)
    exec 9>"$2.lock"
    flock -n 9 || exit 1
    mkdir -m 700 "$2" || exit 1
    echo ready
    exec >/dev/null
    cat >/dev/null
    reap "$2"
    ;;
sweep)
    for dir in "$2"/plegctl-rt-*; do
        [ -d "$dir" ] || continue
        exec 9>"$dir.lock"
        ! flock -n 9 || reap "$dir"
    done
    ;;
esac
