//! The table of what keeps a kubelet from starting, one row each. Findings, `--ignore`, SARIF, `explain` and the manual
//! read this table.

use crate::manifests::catalogue::check_table;

check_table! {
    /// A check of what a kubelet needs to start, printed as `KP001`. Missing numbers are reserved.
    StartCheck
    "Command line" {
        UnknownFlag "KP001" Error "the kubelet does not know a flag";
            "A kubelet that reads a flag which its release does not know exits at once. The release may be too old for the flag, or the flag never existed.";
            "`failed to parse kubelet flag: unknown flag: --NAME`, exit status 1";
            confirm ["journalctl -u kubelet -n 20", "kubelet --help | grep NAME"];
            never ["that the value is wrong: the kubelet does not look at it", "on OpenShift, that its own flag --max-housekeeping-interval is unknown"];
            act ["correct the name, or remove the flag", "if it belongs to a later release, add it after the upgrade"];
        RemovedFlag "KP002" Error "this release has removed a flag";
            "A removed flag has no message of its own: the kubelet exits as for a name that never existed.";
            "`failed to parse kubelet flag: unknown flag: --NAME`, exit status 1";
            confirm ["journalctl -u kubelet -n 20", "cat /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet"];
            never ["that the flag's setting is lost: many flags are fields of the configuration file", "for 1.37, that the removal was tried: its list of flags comes from the release notes"];
            act ["remove the flag before the upgrade, on every node", "where kubeadm wrote it, remove it from /var/lib/kubelet/kubeadm-flags.env"];
        DeprecatedFlag "KP003" Info "a flag is deprecated";
            "The flag still works. A later release may remove it, and then the kubelet does not start.";
            "`Flag --NAME has been deprecated, …` at the start of the kubelet's log";
            confirm ["journalctl -u kubelet | grep deprecated"];
            never ["that something is wrong today"];
            act ["set the field of the configuration file instead of the flag"];
        BadFlagValue "KP004" Error "a flag has a value that cannot be parsed";
            "The kubelet exits before it reads its configuration file.";
            "`failed to parse kubelet flag: invalid argument \"VALUE\" for \"--NAME\" flag: …`, exit status 1";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that the configuration file is wrong: it has not been read"];
            act ["correct the value"];
        StrayArgument "KP005" Error "the command line has an argument that is no flag";
            "The kubelet takes no arguments besides flags. The usual cause is `--flag false`: the value of a boolean flag needs `=`.";
            "`unknown command WORD`, exit status 1";
            confirm ["journalctl -u kubelet -n 20", "tr '\\0' '\\n' < /proc/$(pidof kubelet)/cmdline"];
            never ["that a value after a flag which is not boolean is meant: that one is fine"];
            act ["write `--flag=false`", "look for an empty or unquoted variable in the unit and its environment files"];
    }
    "Feature gates" {
        UnknownGate "KP010" Error "the kubelet does not know a feature gate";
            "A kubelet exits when a gate on its command line or in its configuration has a name that its release does not know.";
            "`unrecognized feature gate: NAME`: exit status 1 for the command line; from 1.32 on a panic with exit status 2 for the configuration file";
            confirm ["journalctl -u kubelet -n 40 | grep 'feature gate'", "the list of feature gates of that release in the Kubernetes documentation"];
            never ["on OpenShift, that the kubelet refuses the gate: its kubelet only logs a warning, so there the finding is information", "that the gate is misspelt, if a later release knows it"];
            act ["remove the gate, or correct its name", "before a downgrade, remove the gates that only the later release knows"];
        RemovedGate "KP011" Error "this release has removed a feature gate";
            "A gate is removed a few releases after its feature became final. A configuration that still names it, even with the default, keeps the kubelet from starting.";
            "`unrecognized feature gate: NAME`: exit status 1 for the command line; from 1.32 on a panic with exit status 2 for the configuration file";
            confirm ["journalctl -u kubelet -n 40 | grep 'feature gate'", "grep -A30 featureGates /var/lib/kubelet/config.yaml"];
            never ["that the feature is gone: it is usually always on", "on OpenShift, that the kubelet refuses the gate: its kubelet only logs a warning", "for 1.37, that every removal was tried: some come from the release notes, and these findings say likely"];
            act ["remove the gate on every node before the upgrade", "look for the same gate in the arguments of the API server, controller manager and scheduler"];
        LockedGate "KP012" Error "a feature gate is locked to another value";
            "The feature is final: the gate still exists, but only its default is accepted.";
            "`cannot set feature gate NAME to false, feature is locked to true`: exit status 1 for the command line; from 1.32 on a panic with exit status 2 for the configuration file";
            confirm ["journalctl -u kubelet -n 40 | grep 'locked to'"];
            never ["that naming the gate is always refused: its default is accepted until the gate is removed"];
            act ["remove the gate; there is no way back to the old behaviour"];
        EndingGate "KP013" Info "a feature gate is going to be removed";
            "The gate has no effect any more, or is deprecated. A later release removes it, and a kubelet that still gets it does not start.";
            "`Setting GA feature gate NAME=true. It will be removed in a future release.` in the kubelet's log";
            confirm ["journalctl -u kubelet | grep 'will be removed'"];
            never ["that something is wrong today"];
            act ["remove the gate before the upgrade to the release that removes it"];
        GateNotKnownHere "KP014" Warning "plegctl does not know a feature gate of this release";
            "The list of gates of this release is not complete in plegctl, so plegctl cannot say whether the kubelet knows the gate.";
            "nothing, or `unrecognized feature gate: NAME`";
            confirm ["the list of feature gates of that release in the Kubernetes documentation"];
            never ["that the kubelet refuses the gate"];
            act ["look the gate up before the upgrade"];
    }
    "Configuration file" {
        ConfigUnreadable "KP020" Error "the configuration file cannot be read";
            "The kubelet exits if its configuration file or its directory of drop-in files does not exist or cannot be read.";
            "`failed to load kubelet config file, path: PATH, error: …` or `failed to merge kubelet configs: …`, exit status 1";
            confirm ["ls -l PATH", "systemctl cat kubelet"];
            never ["that the kubelet falls back to its defaults: it does so only without --config"];
            act ["create the file, or correct --config; on a kubeadm node: kubeadm upgrade node phase kubelet-config"];
        ConfigNotYaml "KP021" Error "the configuration file is not valid YAML or JSON";
            "The kubelet cannot decode the file and exits. An empty file is refused too.";
            "`failed to decode: yaml: line N: …` or `kubelet config file \"PATH\" was empty`, exit status 1";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that the line in the message is exact: the parser may notice the fault later"];
            act ["correct the line under the caret"];
        ConfigOfOtherKind "KP022" Error "the configuration file has another kind or version";
            "The kubelet reads only kind KubeletConfiguration of kubelet.config.k8s.io/v1beta1; both must be written.";
            "`no kind \"K\" is registered for version \"V\"` or `Object 'Kind' is missing in '…'`, exit status 1";
            confirm ["head -3 /var/lib/kubelet/config.yaml"];
            never ["that a later document of the file counts: only the first one is read"];
            act ["write apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"];
        WrongType "KP023" Error "a field has a value of another type";
            "The kubelet cannot decode the file and exits. A number in quotes is a text, and a duration needs quotes and a unit.";
            "`json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32` or `time: missing unit in duration \"5\"`, exit status 1";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that the other fields are right: the message names one fault only"];
            act ["write the value in the field's type"];
        UnknownConfigField "KP024" Warning "the kubelet does not know a field";
            "The kubelet starts, ignores the field and uses the default. The field may be misspelt, or may belong to another release.";
            "`\"Using lenient decoding as strict decoding failed\" err=\"strict decoding error: unknown field …\"` at the start of the log";
            confirm ["journalctl -u kubelet | grep 'lenient decoding'", "the field in /configz"];
            never ["that the kubelet does not start"];
            act ["correct the name, or remove the field"];
        RepeatedKey "KP025" Warning "a key is written twice";
            "The kubelet starts and uses the last value.";
            "`strict decoding error: … key \"maxPods\" already set in map` at the start of the log";
            confirm ["journalctl -u kubelet | grep 'already set in map'"];
            never ["that the kubelet does not start"];
            act ["remove one of the two lines"];
    }
    "Values" {
        ValueRefused "KP030" Error "the kubelet refuses a value";
            "The value has the right type but is outside of what the kubelet accepts.";
            "`failed to validate kubelet configuration, error: [invalid configuration: …]`, exit status 1; all such faults are in one line";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that the value in the file is meant, if a flag or a drop-in file sets it too"];
            act ["correct the value"];
        ValuesContradict "KP031" Error "two settings contradict each other";
            "Each value is right, but the kubelet refuses them together.";
            "`failed to validate kubelet configuration, error: invalid configuration: A must be … when B …`, exit status 1";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that both are in the same file: flags, file and drop-in files are merged first"];
            act ["change one of the two"];
        NeedsGate "KP032" Error "a field needs a feature gate that is off";
            "The kubelet refuses the field because its feature is switched off in this release or by its gate.";
            "`failed to validate kubelet configuration, error: invalid configuration: … feature gate …`, exit status 1";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that the gate is on by default in every release"];
            act ["switch the gate on, or remove the field"];
        RefusedAtStart "KP033" Error "the kubelet refuses a value after the runtime has answered";
            "Reservations, eviction thresholds, the authorization mode, cipher suites, node labels and the like are parsed late. If the runtime is missing, the kubelet does not come to this fault, so it shows only after the runtime is repaired.";
            "`failed to run Kubelet: …` or `failed to construct kubelet dependencies: …`, exit status 1; a bad eviction threshold does not name its field";
            confirm ["journalctl -u kubelet -n 20"];
            never ["that the runtime is at fault because the kubelet reached it"];
            act ["correct the value"];
        ValueIgnored "KP034" Warning "a value has no effect";
            "The kubelet starts and ignores the value, or never registers its node with it.";
            "`\"Could not parse some node IP(s), ignoring them\"` or `\"Failed to set some node status fields\"`";
            confirm ["journalctl -u kubelet | grep -i 'node.*ip'"];
            never ["that the kubelet exits"];
            act ["correct the value"];
    }
    "Cgroups" {
        CgroupV1 "KP040" Error "the kubelet does not start on a node with cgroup v1";
            "From 1.35 on, failCgroupV1 is true by default: a kubelet on a node with cgroup v1 exits.";
            "`kubelet is configured to not run on a host using cgroup v1. …`, exit status 1";
            confirm ["stat -fc %T /sys/fs/cgroup", "cgroup2fs is v2, tmpfs is v1"];
            never ["that a hybrid node, which has both, is v2: the kubelet looks at /sys/fs/cgroup itself"];
            act ["boot with systemd.unified_cgroup_hierarchy=1", "for the time being, set failCgroupV1: false; a later release removes cgroup v1"];
    }
    "Runtime" {
        RuntimeSocketMissing "KP050" Error "the runtime's socket does not exist";
            "The kubelet asks its runtime first and exits if nobody listens. It is started again by its service, so this ends when the runtime starts.";
            "`validate CRI v1 runtime API for endpoint \"E\": rpc error: code = Unavailable …: no such file or directory`, exit status 1";
            confirm ["systemctl status containerd crio", "ls -l /run/containerd/containerd.sock"];
            never ["that the kubelet's other settings are right: most of them are looked at later"];
            act ["start the runtime", "correct containerRuntimeEndpoint"];
        CriPluginDisabled "KP052" Error "containerd's configuration switches its CRI plugin off";
            "containerd packages of some distributions come with disabled_plugins = [\"cri\"]. containerd then runs, but it does not serve Kubernetes.";
            "`rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService`, exit status 1";
            confirm ["grep disabled_plugins /etc/containerd/config.toml", "ctr plugins ls | grep cri"];
            never ["that the containerd which runs has read this file: it may have been started with another one, or before a change"];
            act ["remove the plugin from the list", "systemctl restart containerd"];
        InotifyUsedUp "KP054" Error "root has no inotify instances left";
            "The kubelet needs inotify instances at its start, and so does containerd's CRI plugin. The limit is for each user, and a few programs may use it up.";
            "`\"Failed to start cAdvisor\" err=\"inotify_init: too many open files\"`, exit status 1 after \"Started kubelet\"";
            confirm ["sysctl fs.inotify.max_user_instances", "find /proc/*/fd -lname anon_inode:inotify | cut -d/ -f3 | sort | uniq -c | sort -rn | head"];
            never ["that the limit of open files is meant, although the message says so"];
            act ["sysctl -w fs.inotify.max_user_instances=8192, and the same in /etc/sysctl.d", "find the program that uses most of them"];
    }
    "Certificates" {
        CertificateExpired "KP060" Error "a certificate has expired";
            "With an expired client certificate the kubelet starts but never registers; with rotateCertificates it exits as soon as the API server answers. An expired serving certificate or authority breaks logs, exec and metrics only.";
            "`\"The currently active client certificate has expired and the server is responsive, exiting.\"`, or `\"Error getting the current node from lister\"` again and again";
            confirm ["openssl x509 -noout -dates -in /var/lib/kubelet/pki/kubelet-client-current.pem", "date -u"];
            never ["that the certificate in use is expired too, if the kubelet has renewed it since and not written it"];
            act ["kubeadm: kubeadm kubeconfig user --org system:nodes --client-name system:node:NAME, then restart the kubelet", "otherwise: delete the file and give the kubelet a bootstrap kubeconfig"];
        CertificateNotYetValid "KP061" Error "a certificate is not valid yet";
            "Either the clock of this node is behind, or the certificate was made on a machine whose clock is ahead.";
            "`x509: certificate has expired or is not yet valid` on one of the two sides";
            confirm ["date -u", "timedatectl", "openssl x509 -noout -dates -in FILE"];
            never ["that the certificate is wrong before the clock is checked"];
            act ["correct the clock"];
        CertificateExpiresSoon "KP062" Warning "a certificate that nobody renews expires soon";
            "The kubelet renews its client certificate only with rotateCertificates: true.";
            "nothing until the day";
            confirm ["openssl x509 -noout -enddate -in FILE"];
            never ["that the kubelet renews it, without rotateCertificates"];
            act ["renew the certificate, or set rotateCertificates: true"];
        CertificateMissing "KP063" Error "a certificate file does not exist";
            "The kubelet exits if a file that its settings name does not exist.";
            "`failed to run Kubelet: open PATH: no such file or directory` and the like, exit status 1";
            confirm ["ls -l PATH"];
            never ["that the kubelet makes a certificate of its own: it does so only if none is configured"];
            act ["create the file, or remove the setting"];
        KeyOfOtherCertificate "KP064" Error "a key does not belong to its certificate";
            "The kubelet cannot use the pair.";
            "`tls: private key does not match public key`";
            confirm ["openssl x509 -noout -pubkey -in CERT", "openssl pkey -pubout -in KEY"];
            never ["that one of the files is damaged: they may be of two generations"];
            act ["put the matching pair in place"];
        CertificateOfOtherName "KP067" Warning "the client certificate is not of a node";
            "The API server gives a kubelet its rights by the name system:node:NAME in the group system:nodes. With another name the kubelet starts, but may not be allowed to register.";
            "`nodes \"NAME\" is forbidden` in the kubelet's log";
            confirm ["openssl x509 -noout -subject -in FILE"];
            never ["that the kubelet does not work: an administrator's certificate has more rights"];
            act ["issue a certificate for system:node:NAME in the group system:nodes"];
    }
    "Node" {
        SwapOn "KP070" Error "swap is on";
            "A kubelet with failSwapOn, which is the default, exits on a node with swap.";
            "`running with swap on is not supported, please disable swap or set --fail-swap-on flag to false`, exit status 1";
            confirm ["cat /proc/swaps"];
            never ["that the kubelet fails at once: it looks at swap after the runtime has answered"];
            act ["swapoff -a, and remove swap from /etc/fstab", "or set failSwapOn: false"];
        KernelSetting "KP071" Error "a kernel setting is not what protectKernelDefaults wants";
            "With protectKernelDefaults the kubelet does not change kernel settings, but exits if one of them differs.";
            "`\"Failed to start ContainerManager\" err=\"[invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0]\"`, exit status 1";
            confirm ["sysctl vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops"];
            never ["that the node is misconfigured: without protectKernelDefaults the kubelet sets these values itself"];
            act ["set the values in /etc/sysctl.d, or set protectKernelDefaults: false"];
        RootIsNoDirectory "KP074" Error "the kubelet's root directory is no directory";
            "The kubelet cannot create its directories there. The message of its first fault misleads.";
            "`could not initialize checkpoint manager, please drain node and remove DRA state file, err: … mkdir PATH: not a directory`, exit status 1";
            confirm ["ls -ld /var/lib/kubelet"];
            never ["that dynamic resource allocation is at fault"];
            act ["move the file away"];
    }
    "Static pods" {
        StaticPodRefused "KP080" Error "the release refuses a static pod";
            "The kubelet starts, but stops this pod or does not run it.";
            "the reason of the linter; `plegctl static-pods lint` shows the line";
            confirm ["plegctl static-pods lint"];
            never ["that the pod keeps running until the next change: it is stopped within 20 s"];
            act ["correct the manifest before the upgrade"];
        StaticPodsRestart "KP081" Info "the upgrade restarts static pods";
            "Most releases give a static pod another UID, so that the kubelet stops and starts the pod after the upgrade.";
            "all static pods restart within a minute of the kubelet's start";
            confirm ["plegctl static-pods lint --upgrade-to VERSION"];
            never ["that this is a fault: it belongs to the upgrade"];
            act ["upgrade control-plane nodes one after another, and wait until etcd is back"];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_every_check() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/preflight.md");
        let manual = std::fs::read_to_string(path).unwrap();
        for check in StartCheck::ALL {
            let row = check.row();
            let line = format!("| {check} | {} | {} |\n", row.severity.as_str(), row.rule.title);
            assert!(manual.contains(&line), "docs/preflight.md lacks: {line}");
            assert!(manual.contains(&format!("### {}\n", row.section)), "{}", row.section);
        }
        assert_eq!(manual.matches("\n| KP").count(), StartCheck::ALL.len());
    }

    #[test]
    fn checks_are_in_the_order_of_their_numbers_and_have_every_text() {
        let ids: Vec<&str> = StartCheck::ALL.iter().map(|check| check.id()).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]), "{ids:?}");
        for check in StartCheck::ALL {
            let rule = &check.row().rule;
            assert_eq!(StartCheck::named(&rule.id.to_lowercase()), Some(*check));
            let lists = [rule.confirm, rule.never, rule.act];
            assert!(lists.iter().all(|list| !list.is_empty()), "{check}");
            assert!([rule.title, rule.means, rule.shows].iter().all(|text| !text.is_empty()), "{check}");
        }
    }
}
