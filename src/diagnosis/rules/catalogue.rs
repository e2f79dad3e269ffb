//! The catalogue of the rules of `health`: for each rule its texts, which `explain`, the documents and the
//! renderers show, its function and its rank in the chain of causes.

use super::{Case, disk, hang, journal, kubelet, load, node, reach, size, state, versions};
use crate::diagnosis::report::{HealthFinding, RuleId};
use crate::report::Rule;

/// One entry of the catalogue.
pub struct HealthRule {
    /// The rule's id.
    pub id: RuleId,
    /// Two or three words for node-problem-detector, the same in every run.
    pub phrase: &'static str,
    /// The rank in the chain of causes: a rule with a lower rank explains one with a higher rank.
    pub rank: u8,
    /// The rule's texts.
    pub rule: Rule,
    /// The rule's function.
    pub function: RuleFunction,
}

/// Applies one rule.
#[derive(Clone, Copy)]
pub enum RuleFunction {
    /// The rule has at most one finding.
    One(fn(&Case<'_>) -> Option<HealthFinding>),
    /// The rule has a finding for each item concerned.
    Many(fn(&Case<'_>) -> Vec<HealthFinding>),
    /// The rule needs the findings of the others, so it is applied after them.
    AfterOthers,
}

impl RuleFunction {
    /// Returns the rule's findings.
    pub fn apply(self, case: &Case<'_>) -> Vec<HealthFinding> {
        match self {
            Self::One(function) => function(case).into_iter().collect(),
            Self::Many(function) => function(case),
            Self::AfterOthers => Vec::new(),
        }
    }
}

/// Returns the entry of a rule.
pub fn row(id: RuleId) -> Option<&'static HealthRule> {
    CATALOGUE.iter().find(|row| row.id == id)
}

macro_rules! catalogue {
    ($($id:ident $rank:literal $phrase:literal $function:expr;
        $title:literal;
        $means:literal;
        $shows:literal;
        confirm $confirm:expr;
        never $never:expr;
        act $act:expr;)*) => {
        /// All entries, by id.
        pub const CATALOGUE: &[HealthRule] = &[$(HealthRule {
            id: RuleId::$id,
            phrase: $phrase,
            rank: $rank,
            rule: Rule {
                id: stringify!($id),
                title: $title,
                means: $means,
                shows: $shows,
                confirm: &$confirm,
                never: &$never,
                act: &$act,
            },
            function: $function,
        }),*];
    };
}

use RuleFunction::{AfterOthers, Many, One};

catalogue! {
    D00 35 "healthy" AfterOthers;
        "nothing found";
        "Every call is answered and a relist is fast: nothing blocks PLEG.";
        "the verdict is healthy, with the figures of a relist and the checks that were not made";
        confirm ["plegctl watch --until-slow 2s   # the problem may come and go"];
        never ["that the node was healthy a minute ago"];
        act ["look at the kubelet's own age: kubelet_pleg_last_seen_seconds, with --kubelet-metrics"];
    D01 18 "status hang" One(hang::status_hangs);
        "a single pod or container does not answer its status call";
        "The list calls are answered, but the status calls of a few ids are not. The kubelet waits two minutes for each of them in every relist that includes the pod.";
        "one or a few ContainerStatus or PodSandboxStatus calls silent while all others answer; likely after 5 s, certain after 10 s or with a frozen cgroup, a task in D state or a stopped shim";
        confirm ["crictl --timeout 20s inspect ID   # or inspectp for a sandbox", "its shim or conmon, its OCI runtime process and its cgroup: findings D09, D10, D11"];
        never ["that the runtime is down", "that the node must be drained", "that the application is at fault: its volume, its OCI runtime or its shim are as likely"];
        act ["keep the runtime's goroutine stacks first", "continue what is stopped or frozen, and restore the storage for which it waits", "last resort: delete this one pod, or kill its shim or conmon (changes state)"];
    D02 15 "list hang" One(hang::list_hangs);
        "a list does not answer and the daemon is alive";
        "No relist succeeds. So the age of PLEG keeps growing, and the node becomes NotReady after three minutes.";
        "ListContainers or ListPodSandbox is silent while Version is answered. plegctl finds ids outside the CRI and makes a status call for each; the silent ones are the culprits";
        confirm ["crictl --timeout 20s ps", "crictl --timeout 20s inspect ID   # of the one that is named"];
        never ["a deadlock: a very long wait looks the same", "a culprit, if the status calls of all ids are answered"];
        act ["keep the runtime's goroutine stacks, twice, 60 s apart", "look for a start, an exit or a resource update of the named container that does not finish", "without a culprit: storage, memory and CPU of the node"];
    D03 4 "list too large" One(size::too_large);
        "a list is too large for gRPC";
        "The answer is over 16 MiB. It fails at once, in every relist and in garbage collection, so that the node does not heal by itself.";
        "ResourceExhausted with \"larger than max\", or an answer of 60 % of 16 MiB and more as an early warning";
        confirm ["plegctl relist   # the bytes of each list and their share", "kubelet_pleg_last_seen_seconds stands still while the relist duration stays tiny"];
        never ["that the runtime is slow or times out", "that it is fine because a client with a larger limit can read it"];
        act ["remove dead sandboxes with crictl, some at a time (changes state)", "ttlSecondsAfterFinished for Jobs, small history limits for CronJobs", "shorter annotations"];
    D04 20 "dead containers" One(size::backlog);
        "too many dead containers or sandboxes";
        "Each list contains all of them and gets slower and larger because of them.";
        "more than 2000 dead ones, or ten exited containers for each running one";
        confirm ["crictl ps -a --state exited -q | wc -l", "plegctl relist --state exited"];
        never ["a leak, unless the number grew while we looked"];
        act ["find the Job or CronJob that leaves them", "look for kubelet garbage collection errors in its journal"];
    D05 19 "slow status pass" One(size::slow_pass);
        "status calls answer, and too slowly";
        "The kubelet makes status calls one after the other. A late answer is not a hang: every call is answered in the end.";
        "single calls of 2 s and more, or a serial pass over every pod of 10 s and more";
        confirm ["plegctl relist --inspect all --serial   # the slowest first", "iostat -x 1 5"];
        never ["that anything hangs or must be deleted", "that the number of pods is to blame while each call is slow"];
        act ["each call slow: storage, memory and CPU of the node", "each call quick: spread rollouts and Jobs, fewer pods here"];
    D06 1 "runtime unreachable" One(reach::unreachable);
        "the endpoint cannot be reached";
        "plegctl can make no calls. Whether the runtime is the cause depends on the reason.";
        "no such socket, not a socket, permission denied, connection refused, something else than gRPC, CRI v1 not served";
        confirm ["ls -l SOCKET; systemctl status containerd crio", "plegctl -v health   # which endpoint was chosen and why"];
        never ["that the runtime is down, from a permission or from a path that the kubelet does not use"];
        act ["give the kubelet's own endpoint with -r", "run as root", "start the runtime, after you have read why it ended"];
    D07 3 "runtime silent" One(reach::silent);
        "the daemon does not answer at all";
        "It accepts connections but does not answer, on two connections.";
        "Version silent for 5 s (likely) or 10 s (certain), or the daemon in state T";
        confirm ["crictl --timeout 20s version", "cat /proc/PID/status /proc/PID/wchan"];
        never ["that it crashed", "that it must be restarted before its stacks are kept"];
        act ["stopped: kill -CONT PID (changes state)", "keep its stacks, then look at storage, memory and CPU"];
    D08 7 "storage stall" One(node::storage);
        "storage stalls";
        "A process waits for a local disk, and the runtime's locks are held meanwhile.";
        "I/O pressure (full, 10 s) of 50 % beside a hang, or two and more tasks of kubelet, runtime, shims in D state in block or file system code";
        confirm ["cat /proc/pressure/io", "iostat -x 1 5", "dmesg -T | grep 'blocked for more than'"];
        never ["that the disk is broken: pressure says that something waits, not why"];
        act ["is the cloud disk throttled? are images pulled or logs written in bulk?", "a disk of its own for the runtime"];
    D09 5 "remote storage stall" One(node::remote);
        "a network or user-space file system does not answer";
        "A task waits in the kernel for NFS, Ceph, CIFS or FUSE, and cannot be killed.";
        "D state in nfs, rpc, ceph, cifs or fuse code, with such a mount of its pod, or the kernel's \"server not responding\"";
        confirm ["cat /proc/PID/task/TID/stack   # as root", "grep -E 'nfs|fuse|ceph|cifs' /proc/self/mountinfo"];
        never ["look at the mount itself: that hangs too", "that every pod with this share is to blame"];
        act ["make the file server available again", "else umount -f, then umount -l (changes state); -l leaves the waiting tasks behind"];
    D10 14 "shim or runc hang" Many(node::holder);
        "an OCI runtime process or a shim hangs";
        "A runc or crun that does not finish, or a shim or conmon that is stopped or waits in the kernel, holds up the calls about its container.";
        "runc or crun older than 30 s, or from 1 s on with the id of the silent call in its command line; a shim in state T or D beside a silent call for its container";
        confirm ["cat /proc/PID/stack   # as root", "ps -o pid,stat,wchan:30,etime,args -p PID"];
        never ["that a young runc, a conmon or a shim is the cause because it runs", "that a container that is created and waits to be started hangs"];
        act ["stopped: kill -CONT PID (changes state)", "containerd's shim: kill -USR1 PID prints its stacks", "in similar cases, killing the runc that hangs unblocked the node (changes state)"];
    D11 6 "frozen cgroup" Many(node::frozen);
        "a cgroup is frozen";
        "No process in it runs, so every process that waits for one of them waits for ever.";
        "frozen 1 in cgroup.events, or freezer.state FROZEN, in two samples";
        confirm ["cat /sys/fs/cgroup/PATH/cgroup.events", "runc --version"];
        never ["an accident: it may have been paused or checkpointed on purpose; a single look proves nothing"];
        act ["echo 0 > /sys/fs/cgroup/PATH/cgroup.freeze (changes state)", "runc 1.1.0 or later"];
    D12 9 "out of memory" One(load::memory);
        "memory is exhausted";
        "The node moves memory pages to and from the disk or kills processes, and every daemon waits for memory.";
        "two of: memory pressure of 10 %, under 5 % available, kills, many major faults";
        confirm ["cat /proc/pressure/memory; free -m", "dmesg -T | grep -i 'out of memory'"];
        never ["a leak, from one reading of a size"];
        act ["system-reserved and kube-reserved", "limit the largest consumers"];
    D13 12 "cpu starved" One(load::cpu);
        "the CPU is starved";
        "The daemons wait for CPU time.";
        "CPU pressure of 60 % and a slow Version, a daemon held back by its own limit now and then, stolen time of 20 %";
        confirm ["cat /proc/pressure/cpu", "cat cpu.max and cpu.stat of the runtime's own cgroup"];
        never ["that CPU is short because the load average is high: tasks in D state raise it too"];
        act ["take the cpu limit off the runtime's unit, or give the node more", "system-reserved"];
    D14 10 "limits exhausted" One(load::exhausted);
        "processes, threads, descriptors or disk space are exhausted";
        "No new process or thread can start: every attempt waits or fails.";
        "90 % of pid_max, pids.max or of a daemon's descriptors; a full or read-only file system under the runtime or the kubelet; \"resource temporarily unavailable\" in the journal";
        confirm ["cat /proc/sys/kernel/pid_max; ls /proc | grep -c '^[0-9]'", "df -h; df -i"];
        never ["that zombies use resources: find their parent instead"];
        act ["find who holds them and end it, or raise that limit (changes state)"];
    D15 11 "systemd stuck" One(load::systemd);
        "systemd or D-Bus does not answer";
        "With the systemd cgroup driver, each start and stop of a container needs systemd.";
        "two of: systemd in D state or using a CPU, systemctl silent for 2 s, D-Bus time-outs in the journal, over 5000 mounts";
        confirm ["timeout 5 systemctl is-system-running", "wc -l /proc/self/mountinfo"];
        never ["a cause, where the cgroup driver is cgroupfs"];
        act ["systemctl list-jobs; systemctl daemon-reexec (changes state)", "a newer systemd handles mounts better"];
    D16 23 "network not ready" One(state::network);
        "the network plugin is slow or not ready";
        "Pods cannot start or stop. This alone does not affect PLEG.";
        "NetworkReady false, or a plugin of the CNI directories that runs for 30 s and more";
        confirm ["crictl info | grep -A3 NetworkReady", "ls /etc/cni/net.d"];
        never ["that it blocks PLEG: only dockershim's lock did that"];
        act ["is the network's DaemonSet running on this node?"];
    D17 24 "exec probe storm" One(load::execs);
        "too many exec probes, or exec probes that leak";
        "Each exec uses threads and file descriptors of the runtime; a hung exec never releases them.";
        "two of: threads or descriptors far above what sandboxes and containers need, exec time-outs in the journal, zombies under shims, mostly execs among the kubelet's calls";
        confirm ["ls /proc/PID/task | wc -l; ls /proc/PID/fd | wc -l", "journalctl -u containerd | grep -c ExecSync"];
        never ["run an exec to test"];
        act ["httpGet, tcpSocket or grpc instead of exec probes", "a longer periodSeconds"];
    D18 22 "name reserved" One(journal::reserved);
        "a name stays reserved";
        "An earlier create for this name has not finished; the kubelet tries again faster than the runtime works.";
        "\"name … is reserved for\" in the journal, with the holder's id";
        confirm ["journalctl -u containerd -u crio | grep 'is reserved'"];
        never ["a naming conflict", "that the pod should be deleted first"];
        act ["find what that create waits for: storage, the network plugin, a mount"];
    D19 26 "state inconsistent" One(state::inconsistent);
        "the runtime's state contradicts reality";
        "The runtime lists something other than what runs.";
        "state UNKNOWN, no creation time, two running containers of one name, running without a process; seen in two samples";
        confirm ["plegctl relist   # twice, some seconds apart", "the processes of the container's cgroup"];
        never ["anything from one sample: creation and removal pass through such states"];
        act ["has the runtime been restarted lately?", "remove the container that does not exist (changes state)"];
    D20 25 "status fails" One(state::failing_status);
        "status calls fail";
        "The kubelet repeats the call in every relist, and the pod's events wait.";
        "PodSandboxStatus or ContainerStatus answered with an error other than not found";
        confirm ["crictl --timeout 20s inspectp ID"];
        never ["a fault, from one \"not found\" after a list: that is a race"];
        act ["read the runtime's journal for this id"];
    D21 0 "runtime recovering" One(journal::recovering);
        "the runtime restarts or recovers";
        "It answers no calls until it has restored every container.";
        "\"Start recovering state\" without an end, or a restart counter that rises";
        confirm ["systemctl show containerd crio -p NRestarts", "journalctl -u containerd -u crio --since -15min"];
        never ["a recovery, from a daemon that is young or stopped"];
        act ["wait if it has only begun", "its journal, or its OCI runtime child, names the container that it waits for"];
    D22 27 "kubelet stale" One(kubelet::stale);
        "the kubelet's own relist is too old";
        "The kubelet itself reports that it has not relisted. Above the threshold the node is NotReady, whatever the cause.";
        "kubelet_pleg_last_seen_seconds older than the threshold (3 min), or older than 60 s and growing, while the runtime answers well";
        confirm ["curl the kubelet's /metrics twice and compare kubelet_pleg_last_seen_seconds", "kubectl get --raw '/api/v1/nodes/NODE/proxy/debug/pprof/goroutine?debug=2'"];
        never ["anything of this with Evented PLEG: its last-seen metric proves nothing", "that the runtime is at fault because the kubelet says PLEG"];
        act ["keep the kubelet's goroutines", "if there is also a hang, start there", "else restart the kubelet (changes state)"];
    D23 31 "evented pleg" One(kubelet::evented);
        "Evented PLEG is in use";
        "The kubelet listens to events and relists every 300 s; its threshold is 10 min and its last-seen metric proves nothing.";
        "the feature gate, or kubelet_evented_pleg_connection_* in its metrics";
        confirm ["kubectl get --raw /api/v1/nodes/NODE/proxy/configz"];
        never ["a cause, without an inconsistency or stream errors"];
        act ["plegctl watch --mode compare   # what it would miss on this node"];
    D24 29 "never relisted" One(journal::never_relisted);
        "the first relist never succeeded";
        "No list call has been answered completely since the kubelet started.";
        "\"pleg has yet to be successful\", or an age of 2562047h";
        confirm ["journalctl -u kubelet | grep PLEG"];
        never ["a cause of its own: look at D03, D06 and D21"];
        act ["fix the underlying problem"];
    D25 32 "pleg flaps" One(journal::flapping);
        "PLEG flaps";
        "It was unhealthy within the last minutes and came back.";
        "ages in the kubelet's journal; the peak divided by the time-out is the number of calls that run out";
        confirm ["journalctl -u kubelet | grep 'PLEG is not healthy'"];
        never ["that PLEG flaps, if the node is NotReady for another reason"];
        act ["wait for the next time: plegctl watch --until-slow 2s"];
    D26 33 "watchdog restarts" One(journal::watchdog);
        "a watchdog restarts the kubelet";
        "The restarts hide the cause and reset the metrics.";
        "a young kubelet with PLEG messages before, or node-problem-detector's health checker in the journal";
        confirm ["systemctl show kubelet -p NRestarts", "journalctl -u node-problem-detector"];
        never ["that the restart fixed anything"];
        act ["stop the watchdog while you look (changes state)"];
    D27 34 "known bad version" Many(versions::known_bad);
        "a version with a known fault";
        "This version has caused problems elsewhere; there is no proof that it is the cause here.";
        "the runtime's version in a table of known faults";
        confirm ["read the issue that is named"];
        never ["a cause"];
        act ["plan the upgrade"];
    D28 30 "hidden stall" One(hang::hidden_stall);
        "Ready, but events are late";
        "One call that hangs costs one time-out per relist, which is below the threshold. So the node stays Ready, but the state of its pods is minutes old.";
        "exactly one hung status call, an age that peaks between 60 s and 180 s";
        confirm ["kubelet_pleg_relist_interval_seconds, or plegctl watch"];
        never ["that Ready means healthy"];
        act ["start with the hung call (D01)"];
    D29 16 "list fails" One(reach::list_fails);
        "a list fails";
        "After each such error, the kubelet's time of the last relist does not advance, while its duration metric stays small.";
        "ListPodSandbox or ListContainers answered with an error other than its size";
        confirm ["crictl --timeout 20s ps -a; crictl --timeout 20s pods"];
        never ["a hang"];
        act ["read the runtime's journal"];
    D30 21 "lists slow" AfterOthers;
        "lists are slow, cause not found";
        "The list calls are answered late, and no check explains why.";
        "a list over 1 s (warning) or 10 s (critical) and no other finding";
        confirm ["plegctl relist; iostat -x 1 5; cat /proc/pressure/*"];
        never ["why"];
        act ["wait for the next time: plegctl watch --until-slow 1s"];
    D31 17 "runtime not ready" One(state::not_ready);
        "the runtime says that it is not ready";
        "This alone makes the node NotReady after 30 s.";
        "RuntimeReady false or missing in Status, or Status silent";
        confirm ["crictl --timeout 20s info"];
        never ["that PLEG is the reason"];
        act ["read its reason and the runtime's journal"];
    D32 28 "kubelet down" One(kubelet::absent);
        "the kubelet does not run or does not answer";
        "Without a kubelet there is no PLEG. The runtime is not at fault.";
        "a daemon with pods and no kubelet in the same process table, a kubelet in state T, /healthz failing or silent";
        confirm ["systemctl status kubelet", "ps -o pid,stat,etime,args -C kubelet"];
        never ["a missing kubelet, from a pod that sees only its own processes"];
        act ["journalctl -u kubelet --since -15min", "stopped: kill -CONT PID (changes state)"];
    D33 13 "exit lost" One(state::lost_exit);
        "the exit of a container was lost";
        "CRI-O waits 3.7 s for an exit file in every status call of such a container. Slow, never hung.";
        "a ContainerStatus of 3 to 5 s, or twice that, answered with EXITED and exit code -1, on CRI-O";
        confirm ["pgrep -af ID   # its conmon: gone, or in state T", "crictl --timeout 20s inspect ID | grep exitCode"];
        never ["that it is a hang, however many containers there are"];
        act ["conmon stopped: kill -CONT PID (changes state); the calls are quick from then on", "conmon gone: the exit code is lost; crictl --timeout 60s rm ID (changes state); removing waits for the exit too"];
    D34 8 "disk full" One(disk::full);
        "the disk under the runtime or the kubelet is full or read-only";
        "The runtime cannot do what it cannot write: creates, exits and removals fail, and its database waits.";
        "less than 1 % and 1 GiB free for root, or less than 1 % and 10000 inodes free, or a file system that the kernel made read-only; plegctl never queries a network mount";
        confirm ["df -h PATH; df -i PATH", "grep PATH /proc/self/mountinfo; dmesg -T | grep -i 'remounting filesystem read-only'"];
        never ["that this alone is why a call hangs: look at D08 and the journal too"];
        act ["find what fills it: images, logs of containers, writable layers, dead containers", "read-only: the kernel's log says which error; mend the disk before anything is remounted (changes state)"];
    D35 2 "runtime throttled" One(load::throttled);
        "the runtime is throttled by the CPU limit of its own cgroup";
        "It may run only for a part of each 100 ms, so everything that it does is late. Nothing else is the cause.";
        "throttled_usec in cpu.stat of the daemon's cgroup grows by half of the time that passes, or more";
        confirm ["cat cpu.max and cpu.stat of the runtime's own cgroup, twice"];
        never ["that the pod whose call is the latest has anything to do with it"];
        act ["systemctl set-property --runtime UNIT CPUQuota=   # takes the limit off (changes state)", "find out who set it"];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_has_one_row_and_every_rank_one_id() {
        let names: Vec<String> = CATALOGUE.iter().map(|row| row.id.to_string()).collect();
        let wanted: Vec<String> = (0..CATALOGUE.len()).map(|number| format!("D{number:02}")).collect();
        assert_eq!(names, wanted);
        assert!(CATALOGUE.iter().all(|row| row.rule.id == row.id.to_string()));
        let ranks: BTreeSet<u8> = CATALOGUE.iter().map(|row| row.rank).collect();
        assert_eq!(ranks.len(), CATALOGUE.len());
    }

    #[test]
    fn every_rule_has_all_texts() {
        for row in CATALOGUE {
            let rule = &row.rule;
            let parts = [rule.confirm, rule.never, rule.act];
            assert!(parts.iter().all(|lines| !lines.is_empty()), "{}", rule.id);
            let texts = [row.phrase, rule.title, rule.means, rule.shows];
            let all = parts.into_iter().flatten().chain(&texts);
            assert!(
                all.into_iter()
                    .all(|text| !text.trim().is_empty() && !text.contains("  ") || text.contains("   #")),
                "{}",
                rule.id
            );
            assert!(row.phrase.is_ascii() && row.phrase.len() <= 24);
        }
    }
}
