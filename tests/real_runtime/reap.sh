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

# Ctrl-C at the terminal goes to the test alone; this script has to outlive it.
trap '' INT TERM HUP

# The processes whose command line names DIR: the daemon (`-c DIR/...`) and its shims (`-address DIR/...`).
pids_naming() {
    for cmdline in /proc/[0-9]*/cmdline; do
        pid=${cmdline#/proc/}
        pid=${pid%/cmdline}
        [ "$pid" != $$ ] || continue
        tr '\0' '\n' <"$cmdline" 2>/dev/null | grep -q -x -e "$1/config.toml" -e "$1/containerd.sock" && echo "$pid"
    done
}

# The cgroup directories of this instance's pods, deepest first, in every hierarchy.
cgroups_of() {
    for tree in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
        [ -d "$tree" ] && find "$tree" -depth -type d 2>/dev/null
    done
}

kill_everything() {
    # The daemon goes with the first round, so nothing starts a shim again while the later rounds look for stragglers.
    for pid in $(pids_naming "$1"); do
        kill -KILL "$pid" 2>/dev/null
    done
    cgroups_of "$2" | while read -r cgroup; do
        # A frozen process does not even die of SIGKILL on cgroup v1.
        [ ! -w "$cgroup/freezer.state" ] || echo THAWED >"$cgroup/freezer.state"
        [ ! -w "$cgroup/cgroup.freeze" ] || echo 0 >"$cgroup/cgroup.freeze"
        while read -r pid; do
            kill -KILL "$pid"
        done <"$cgroup/cgroup.procs"
    done 2>/dev/null
}

still_running() {
    [ -n "$(pids_naming "$1")" ] ||
        [ -n "$(cgroups_of "$2" | while read -r cgroup; do cat "$cgroup/cgroup.procs"; done 2>/dev/null)" ]
}

# What a shim keeps outside of DIR: its socket and runc's state, both named in or by the bundle directory.
forget_bundles() {
    for bundle in "$1"/state/io.containerd.runtime.v2.task/k8s.io/*; do
        [ -d "$bundle" ] || continue
        rm -rf "/run/containerd/runc/k8s.io/${bundle##*/}"
        for file in "$bundle/address" "$bundle/bootstrap.json"; do
            socket=$(grep -o -s '/run/containerd/s/[0-9a-f]*' "$file") && rm -f "$socket"
        done
    done
}

unmount_under() {
    # Latest mount first, so that nothing is mounted on top of what goes.
    cut -d' ' -f2 /proc/self/mounts | grep "^$1/" | sed '1!G;h;$!d' | while read -r mount; do
        umount "$mount" || umount -l "$mount"
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
    forget_bundles "$dir"
    unmount_under "$dir"
    cgroups_of "$name" | while read -r cgroup; do
        rmdir "$cgroup"
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
        if flock -n 9; then
            reap "$dir"
        fi
    done
    ;;
esac
