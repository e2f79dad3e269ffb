#!/bin/sh
# Removes a private containerd with its processes, mounts, cgroups and files, whatever its state is.
#
#   reap.sh watch DIR    creates DIR, prints `ready`, waits for the end of standard input, and then removes everything of
#                        DIR. Standard input ends with the test process, also if that process is killed.
#   reap.sh sweep BASE   removes the directories below BASE whose watcher was killed
#
# A watcher holds the lock on DIR.lock. The script changes only processes, mounts and cgroups with the path or the name of
# DIR.
set -u

# The path of some users lacks the directory of fsfreeze.
PATH=$PATH:/usr/sbin:/sbin

# Ctrl-C must end only the test; this script cleans up afterwards.
trap '' INT TERM HUP

# pids_naming DIR: the processes whose command line names DIR: the daemon (`-c DIR/...`), its shims (`-address DIR/...`) and
# network plugins that hang (`sh DIR/cni-bin/...`).
pids_naming() {
    # The arguments in /proc/PID/cmdline end in NUL, so grep -z treats each of them as a line. grep reads the names from
    # stdin, because names among its own arguments would make it find itself.
    {
        printf '%s\n' "$1/config.toml" "$1/containerd.sock" | grep -l -z -x -F -f - /proc/[0-9]*/cmdline
        printf '%s\n' "$1/cni-bin/" | grep -l -z -F -f - /proc/[0-9]*/cmdline
    } 2>/dev/null | cut -d/ -f3
}

# cgroups_of NAME: the cgroups that contain all pods of this containerd, one in each hierarchy.
cgroups_of() {
    for tree in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
        [ ! -d "$tree" ] || echo "$tree"
    done
}

# pids_in_cgroups_of NAME: the processes in these cgroups.
pids_in_cgroups_of() {
    cgroups_of "$1" | while read -r tree; do
        find "$tree" -name cgroup.procs -exec cat {} +
    done 2>/dev/null | sort -u
}

# thaw_under DIR: unfreezes the file systems below DIR. SIGKILL does not end a process that waits for a frozen file system.
thaw_under() {
    cut -d' ' -f2 /proc/self/mounts | grep "^$1/" | xargs -r -n 1 fsfreeze --unfreeze
} 2>/dev/null

# kill_everything DIR NAME: kills all processes of this containerd once.
kill_everything() {
    thaw_under "$1"
    # This kills the daemon in the first round, so in later rounds nothing starts a new shim.
    pids_naming "$1" | xargs -r kill -KILL
    # On cgroup v1, SIGKILL does not end a frozen process.
    cgroups_of "$2" | while read -r tree; do
        find "$tree" -name freezer.state -exec sh -c 'for file; do echo THAWED >"$file"; done' sh {} +
        find "$tree" -name cgroup.freeze -exec sh -c 'for file; do echo 0 >"$file"; done' sh {} +
    done
    pids_in_cgroups_of "$2" | xargs -r kill -KILL
} 2>/dev/null

still_running() {
    [ -n "$(pids_naming "$1")" ] || [ -n "$(pids_in_cgroups_of "$2")" ]
}

# forget_shims DIR: removes the files that shims have outside of DIR: runc's state, and a socket that is named by a hash. A
# killed shim does not remove them, and containerd forgets the shim's bundle. So a test that kills a shim first writes its id
# into DIR/shims.
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
    # Begins with the latest mount, because a mount with another mount on top of it cannot be unmounted.
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
    # If a mount is left, rm must not delete the files on it.
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
