//! The table of checks, one row each. Findings, `--ignore`, SARIF, `explain` and the manual read this table.

use crate::report::{Rule, Severity};

/// One row: the section, the severity and the explanation of a check.
#[derive(Debug)]
pub struct CheckRow {
    /// The section in which the check is listed.
    pub section: &'static str,
    /// The usual severity of its findings; a single finding may be less severe.
    pub severity: Severity,
    /// The explanation that `explain` prints.
    pub rule: Rule,
}

/// Defines the enum of the checks in a table, with the row of each check.
macro_rules! check_table {
    ($(#[$description:meta])* $checks:ident $($section:literal {
        $($name:ident $id:literal $severity:ident $title:literal;
            $means:literal;
            $shows:literal;
            confirm $confirm:expr;
            never $never:expr;
            act $act:expr;)*
    })*) => {
        $(#[$description])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $checks {
            $($(
                #[doc = concat!($id, ": ", $title)]
                $name,
            )*)*
        }

        impl $checks {
            /// All checks, by number.
            pub const ALL: &[Self] = &[$($(Self::$name),*),*];

            /// The row of the table.
            pub const fn row(self) -> &'static $crate::manifests::catalogue::CheckRow {
                match self {
                    $($(Self::$name => &$crate::manifests::catalogue::CheckRow {
                        section: $section,
                        severity: $crate::report::Severity::$severity,
                        rule: $crate::report::Rule {
                            id: $id,
                            title: $title,
                            means: $means,
                            shows: $shows,
                            confirm: &$confirm,
                            never: &$never,
                            act: &$act,
                        },
                    },)*)*
                }
            }

            /// Returns the check with this id, in upper or lower case.
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|check| check.id().eq_ignore_ascii_case(text))
            }

            /// The id as it is printed.
            pub const fn id(self) -> &'static str {
                self.row().rule.id
            }
        }

        impl std::fmt::Display for $checks {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.id())
            }
        }

        impl serde::Serialize for $checks {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.id())
            }
        }
    };
}
pub(super) use check_table;

check_table! {
    /// A check of a manifest, printed as `SP053`. Missing numbers are reserved, or are those of checks that would have
    /// to guess.
    Check
    "Path and directory" {
        PathMissing "SP001" Error "the manifest path does not exist";
            "The kubelet reads a missing path as an empty directory and stops every static pod that came from it.";
            "one finding about the path; the kubelet logs \"path does not exist, ignoring\" every 20 s";
            confirm ["ls -ld PATH", "grep staticPodPath /var/lib/kubelet/config.yaml"];
            never ["that the kubelet has failed: it keeps running, without static pods"];
            act ["create the directory, or correct staticPodPath and restart the kubelet"];
        PathOfOtherKind "SP002" Error "the manifest path is neither a directory nor a regular file";
            "A FIFO, a socket or a device is never read; pods that ran before stay as they are.";
            "one finding about the path; the kubelet logs that it is not a directory or file";
            confirm ["stat PATH"];
            never ["that pods which still run would come back after a restart of the kubelet"];
            act ["let staticPodPath name a directory"];
        PathIsPattern "SP003" Error "the kubelet treats the directory path as a glob pattern";
            "The kubelet lists the directory by a glob, so that * ? [ and \\ in its own name match other directories or none.";
            "such a character in the path; what the kubelet reads instead is not judged here";
            confirm ["grep staticPodPath /var/lib/kubelet/config.yaml"];
            never ["that the files in it are wrong"];
            act ["rename the directory, then change staticPodPath"];
        PathIsFile "SP004" Warning "the manifest path is a single file";
            "After an invalid edit of a single file, the old pod keeps running until the kubelet restarts; saving by rename stops the pod for up to 20 s.";
            "the path is a regular file";
            confirm ["stat PATH"];
            never ["that it does not work: it does, with these two surprises"];
            act ["put the file into its own directory and pass that directory"];
        OtherPathConfigured "SP005" Warning "this is not the directory that the running kubelet reads";
            "The checked files are not the ones that run on this node.";
            "the kubelet's command line or configuration names another path";
            confirm ["plegctl -v static-pods lint   # without a path: the kubelet's own"];
            never ["that the files are wrong: they may belong to another node"];
            act ["lint the path that is named", "for a copy of it: --as PATH"];
        NothingLoads "SP006" Warning "the directory holds no manifest that loads";
            "The kubelet runs no static pod from here.";
            "no file of the directory has the verdict loaded";
            confirm ["ls -la PATH"];
            never ["a fault, on a worker: many have no static pod", "that the directory is empty: the kubelet reads one it may not open as empty too"];
            act ["on a control-plane node: bring the manifests back, for kubeadm from its backup or by kubeadm init phase"];
        PathWritable "SP007" Warning "the directory can be written by others";
            "Anyone who can write here can run any container as root on this node.";
            "the directory belongs to another user than root, or its mode lets group or others write";
            confirm ["stat -c '%U:%G %a' PATH"];
            never ["that somebody has used this"];
            act ["chown root:root and chmod 0700 the directory"];
    }
    "Files" {
        BackupIsLive "SP010" Warning "a backup or temporary file is a live manifest";
            "The kubelet ignores file extensions: x.yaml.bak is a manifest like x.yaml, and its pod runs.";
            "a file that loads and is named like a backup, a package manager's remainder or an editor's";
            confirm ["ls -la PATH"];
            never ["that it is safe to delete at once: where it shares a pod with another file, see SP100 first"];
            act ["move it out of the directory, or begin its name with a dot"];
        NotAManifest "SP011" Error "the file is not a manifest";
            "The kubelet reads every file; this one it refuses and logs again every 20 s.";
            "a text, a script, a binary, that has nothing of a manifest in it";
            confirm ["file PATH"];
            never ["that it affects the other files: it does not"];
            act ["move it out of the directory, or begin its name with a dot"];
        DotFile "SP012" Info "a dotfile is hidden from the kubelet";
            "Names that begin with a dot are not read, so that a manifest can be parked under one.";
            "an entry whose name begins with a dot";
            confirm ["ls -la PATH"];
            never ["that it was meant to be hidden"];
            act ["rename it if it is to run"];
        SubDirectory "SP013" Warning "manifests in a sub-directory are never read";
            "The kubelet does not descend; it logs an error about the directory every 20 s.";
            "a directory, or a link to one, inside the manifest directory";
            confirm ["find PATH -mindepth 2 -type f"];
            never ["that its pods run"];
            act ["move the files up, or the directory away"];
        DanglingLink "SP014" Error "a symbolic link points to nothing";
            "The kubelet skips the link and stops the pod that ran from it.";
            "a link whose target does not exist below the node's root";
            confirm ["readlink -f PATH"];
            never ["that the target is permanently gone: its file system may not be mounted"];
            act ["bring the target back, or remove the link"];
        Link "SP015" Warning "a manifest is a symbolic link";
            "The kubelet watches the directory and not the target, so that an edit of the target is seen by the next scan only, up to 20 s later.";
            "a link to a regular file";
            confirm ["readlink -f PATH"];
            never ["that it does not run"];
            act ["copy the file into the directory", "or touch -h the link after each edit"];
        Fifo "SP016" Error "a FIFO hangs the kubelet's file source";
            "When the FIFO is created, the kubelet opens it and waits for a writer. From then on it sees no change of any static pod.";
            "an entry that is a FIFO";
            confirm ["stat PATH", "ls -l /proc/KUBELET/fd | grep PATH"];
            never ["that it hangs now: the kubelet may have been started after it was made"];
            act ["remove it", "restart the kubelet if edits no longer have an effect (changes state)"];
        OddEntry "SP017" Error "a socket or a device is skipped";
            "The kubelet logs it every 20 s and does not read it.";
            "an entry that is neither file, directory, link nor FIFO";
            confirm ["stat PATH"];
            never ["that it hurts the other files"];
            act ["remove it"];
        TooLarge "SP018" Error "the file is at or over the size limit";
            "From 10 485 760 bytes on the kubelet refuses a file unread, and stops the pod that ran from it.";
            "the size of the file";
            confirm ["stat -c %s PATH"];
            never ["that its content is wrong"];
            act ["remove what does not belong there, usually data in annotations or environment"];
        Unreadable "SP019" Error "the file cannot be read";
            "If the kubelet cannot read it either, it stops the pod that ran from it at its next scan.";
            "the system's own error: permission, input or output, a mount that is gone";
            confirm ["head -c1 PATH", "ausearch -m avc -ts recent   # with SELinux"];
            never ["that the kubelet cannot: it runs as root, and maybe under another label"];
            act ["run this as root", "correct mode, owner or label"];
        BroadMode "SP020" Info "the mode or the owner of the file is broader than needed";
            "Anyone who can write the file can run any container as root; anyone who can read it can read its secrets.";
            "another owner than root, a mode that lets others write, or one that is not kubeadm's 0600";
            confirm ["stat -c '%U:%G %a' PATH"];
            never ["that somebody has used this"];
            act ["chown root:root and chmod 0600 the file; that restarts nothing"];
        HardLink "SP021" Warning "two entries of the directory are the same file";
            "Both give the same pod, and removing one of them stops it until the next scan.";
            "two entries with one inode";
            confirm ["ls -li PATH"];
            never ["that the two could be edited apart"];
            act ["keep one name, and touch it at once after the other was removed"];
    }
    "Bytes and documents" {
        NoObject "SP030" Error "the file contains no object";
            "There is nothing to run: empty, comments only, or null. A pod that ran from it is stopped.";
            "the kubelet logs that Object 'Kind' is missing in 'null'";
            confirm ["grep -v '^ *#' PATH"];
            never ["that it is harmless to leave it: it is logged every 20 s"];
            act ["write the manifest, or remove the file"];
        MoreDocuments "SP031" Warning "documents after the first never run";
            "The kubelet reads the first document of a file and does not even parse the others.";
            "a --- after the Pod, with something behind it";
            confirm ["grep -n '^---' PATH"];
            never ["that the later documents are correct: nothing has read them"];
            act ["one file for each pod"];
        PodIsLater "SP032" Error "the Pod is not in the first document";
            "The kubelet reads the first document alone, which is empty or something else, and ignores the Pod.";
            "a Pod in a later document and none in the first";
            confirm ["grep -n '^---' PATH"];
            never ["that the Pod itself is wrong"];
            act ["remove the text before its ---, or put it into its own file"];
        Syntax "SP033" Error "the YAML does not parse";
            "The file is refused whole, and a pod that ran from it is stopped at the next scan.";
            "the parser's reason with line and column: a tab, an indent, a quote, braces of a template";
            confirm ["plegctl static-pods lint PATH   # points at the place"];
            never ["that the fault is in that very line: an open quote is noticed lines later"];
            act ["correct the place; write a copy under a name with a dot, then rename it over the file"];
        Encoding "SP034" Error "the encoding is not accepted";
            "The kubelet reads UTF-8, and UTF-16 with a byte order mark; it refuses NUL, other control characters and bytes that are not UTF-8, even in comments.";
            "the first byte that is wrong, with its place";
            confirm ["iconv -f UTF-8 -t UTF-8 PATH >/dev/null", "file PATH"];
            never ["that the file is damaged: Latin-1 in a comment is enough"];
            act ["save it as UTF-8"];
        OddEncoding "SP035" Info "byte order mark, UTF-16 or carriage returns";
            "The kubelet accepts them; other tools, and a diff, may not.";
            "the first bytes or the line ends of the file";
            confirm ["file PATH"];
            never ["that it is why a pod does not run"];
            act ["save it as UTF-8 with plain line ends"];
        KeyTwice "SP036" Warning "a key is given twice";
            "The last one replaces the whole value without a message: a second spec replaces the first.";
            "both lines of the key in one mapping";
            confirm ["plegctl static-pods lint PATH   # names both lines"];
            never ["that the two are merged"];
            act ["delete the one that is not meant"];
        LooksLikeBlank "SP037" Warning "a character only looks like a space or a quote";
            "A non-breaking space or a typographic quote is text to the kubelet, and becomes part of the key or the value.";
            "the character, in a key or at an end of a value; pasted from a page or a chat, as a rule";
            confirm ["grep -nP '[^\\x00-\\x7F]' PATH"];
            never ["that every such character is wrong: inside a text it may be intended"];
            act ["type it again by hand"];
        NotJson "SP038" Error "the file starts like JSON and is not JSON";
            "A file whose first character is { is read as JSON and as nothing else: no comments, no trailing comma, nothing behind the object.";
            "the JSON reader's reason, with its place";
            confirm ["python3 -m json.tool PATH"];
            never ["that it would be accepted because YAML tools accept it"];
            act ["make it strict JSON, or write block YAML that does not begin with {"];
        YamlOneOne "SP039" Warning "a value means something unexpected in YAML 1.1";
            "The kubelet reads YAML 1.1: yes is true, 0100 is 64, 1_0 is 10.";
            "a plain value that another reader would take for another one";
            confirm ["plegctl static-pods lint PATH -o json   # value by value"];
            never ["that it is wrong: the value may be meant"];
            act ["write the plain value, or quote it if it is a text"];
        MergeReplaces "SP040" Info "a merge replaces a key that was given before";
            "The kubelet applies << at its position, so it replaces keys above it; other readers prefer the explicit key.";
            "a << below a key that its anchor has too";
            confirm ["plegctl static-pods lint PATH   # names the keys"];
            never ["that other tools show the same object"];
            act ["write << first in its mapping"];
        Directive "SP041" Error "the YAML directive is not supported";
            "The kubelet accepts %YAML 1.1 alone.";
            "another version in a %YAML line";
            confirm ["head -3 PATH"];
            never ["that the rest of the file is wrong"];
            act ["delete the line"];
        NotJudged "SP042" Warning "plegctl does not judge the file";
            "plegctl does not know what the kubelet makes of it.";
            "more than 500000 values, or a quantity with more than 38 digits";
            confirm ["grep -n 'config file' KUBELET-LOG   # the kubelet's own words"];
            never ["that the kubelet refuses the file"];
            act ["take out what does not belong in a manifest"];
    }
    "Kind, types and unknown fields" {
        NotAPod "SP050" Error "the object is not a Pod";
            "From files, the kubelet loads only Pods, not even a List. It prints other core/v1 objects into its log, including Secrets.";
            "the kind and the version of the object";
            confirm ["grep -nE '^(kind|apiVersion):' PATH"];
            never ["that it reaches the API server from here: apply it with kubectl"];
            act ["move the Pod into its own file", "a Secret that lay here was logged: give it a new value"];
        KindOrVersion "SP051" Error "kind or apiVersion is missing or wrong";
            "They must be Pod and v1, letter by letter; only the names of the two fields are matched in any case.";
            "the field, or the place where it is missing";
            confirm ["grep -nE '^(kind|apiVersion):' PATH"];
            never ["that v1beta1 or core/v1 would do"];
            act ["write apiVersion: v1 and kind: Pod"];
        WrongType "SP052" Error "a value has the wrong type";
            "A number or a truth value where a text is wanted, or the other way round, refuses the whole file; the kubelet names no line.";
            "the field, the type that it must have and the one that was found";
            confirm ["plegctl static-pods lint PATH   # points at the value"];
            never ["that kubectl would refuse it in the same words"];
            act ["quote texts that look like numbers, truth values or versions: \"1.20\", \"yes\""];
        UnknownField "SP053" Warning "an unknown field is dropped";
            "The kubelet decodes leniently: a field that this release does not know is dropped without a message, and the pod runs without it.";
            "the field, with the nearest one that there is; or the release or the gate that it waits for";
            confirm ["kubectl explain pod.spec   # of a cluster of the same release", "plegctl static-pods lint --kubelet-version VERSION PATH"];
            never ["that the file is refused, or that the kubelet's log says anything", "that it is a typing error: a newer release may know the field"];
            act ["correct its name or its indentation", "remove it, or wait for the release that knows it: --upgrade-to says what it will do then"];
        LostField "SP054" Error "a field is lost because it is in the wrong place";
            "It is dropped as unknown, and the pod is refused because it is missing where it belongs.";
            "an unknown field whose name is required elsewhere, such as containers next to spec";
            confirm ["plegctl static-pods lint PATH   # says where it belongs"];
            never ["that the field is misspelt: as a rule it is indented wrongly"];
            act ["move it to where it belongs"];
        BadQuantity "SP055" Error "a quantity does not parse";
            "The whole file is refused; the kubelet says neither field nor line.";
            "the value: 100mi, 1gb, \"128 Mi\", an empty text";
            confirm ["plegctl static-pods lint PATH   # points at the value"];
            never ["that suffixes are read in any case: m is a thousandth, M a million, Mi 2^20"];
            act ["write it like 100m, 128Mi, 1Gi"];
        OddQuantity "SP056" Warning "a quantity is probably a mistake";
            "It is legal and absurd: 128m of memory is an eighth of a byte.";
            "memory in thousandths or below 1 MiB, more than a thousand CPUs";
            confirm ["grep -n -A6 resources: PATH"];
            never ["that the kubelet refuses it: the container is killed or not scheduled instead"];
            act ["write Mi for memory, m for CPU"];
        EndlessQuantity "SP057" Error "the kubelet never finishes computing a quantity";
            "An exponent so large that the kubelet computes for ever: its file source hangs, and with it every change of a static pod.";
            "the quantity; the verdict is notJudged";
            confirm ["top -H -p KUBELET   # one thread at 100 %"];
            never ["that the kubelet refuses the file"];
            act ["correct the value", "restart the kubelet if it hangs already (changes state)"];
    }
    "Metadata and what is special about static pods" {
        NoName "SP060" Error "the pod has no name";
            "metadata.name is required, and the kubelet generates none from generateName.";
            "the kubelet logs that a name is needed for the pod";
            confirm ["grep -n -A3 '^metadata:' PATH"];
            never ["that Metadata or NAME would do: everything but kind and apiVersion is case-sensitive"];
            act ["set metadata.name"];
        BadMetadata "SP061" Error "a name, label or annotation is not valid";
            "Validation looks at the name with the node's name behind it: lower case, digits, - and ., 253 characters.";
            "the field and the rule that it breaks";
            confirm ["plegctl static-pods lint --node-name NODE PATH"];
            never ["that a short name is enough: the node's name counts too, and one with upper case refuses every static pod"];
            act ["correct the name, the label or the annotation"];
        NodeNameTwice "SP062" Warning "the name already ends with the node name";
            "The kubelet appends the node's name, so that it runs as x-node-node.";
            "metadata.name that ends with - and the node's name; copied from kubectl, as a rule";
            confirm ["kubectl get pods -A | grep NAME"];
            never ["that the file comes from another node"];
            act ["remove the suffix; the pod restarts under its new name"];
        SavedMirror "SP063" Error "the manifest is a saved mirror pod";
            "With the annotation kubernetes.io/config.mirror the kubelet files the pod as a mirror and never starts it, without a line in its log.";
            "that annotation; the file was made by kubectl get pod -o yaml";
            confirm ["grep -n config.mirror PATH"];
            never ["that the pod was refused: it is accepted, and not run"];
            act ["delete the kubernetes.io/config annotations, ownerReferences, uid, nodeName and status"];
        ServerField "SP064" Warning "a field that only the API server sets has no effect";
            "The kubelet sets it itself or takes no notice of it.";
            "config annotations, ownerReferences, resourceVersion, nodeName of another node, a status";
            confirm ["plegctl static-pods lint PATH   # names the field"];
            never ["that the pod is refused for it"];
            act ["delete it"];
        FixedUid "SP065" Warning "the UID is fixed";
            "With metadata.uid the pod keeps its UID when the file changes: edits of command, arguments, environment, volumes and resources do not restart its containers, and the mirror pod stays as it was.";
            "metadata.uid is set; RKE2 sets a new one for each revision, which is fine";
            confirm ["crictl inspectp SANDBOX | grep config.hash"];
            never ["that an edit was applied because the file was read"];
            act ["remove metadata.uid, or change it with every edit"];
        ApiReference "SP066" Error "a static pod refers to an API object";
            "Static pods may not refer to secrets, config maps, service accounts, claims and the like. From 1.34 the kubelet refuses the file; before, the pod runs and the API server refuses its mirror.";
            "the first such reference, in the kubelet's order, and what this release does with it";
            confirm ["journalctl -u kubelet | grep -E 'may not reference|mirror pod'"];
            never ["that optional: true helps", "before 1.34: that the pod is down because it has no mirror"];
            act ["pass the data through a hostPath", "credentials for pulling: the node's own"];
        ForbiddenField "SP067" Error "a field is forbidden for static pods";
            "Ephemeral containers and scheduling gates cannot be given in a file; the pod is refused.";
            "the field";
            confirm ["plegctl static-pods lint PATH   # points at it"];
            never ["that the rest of the pod is wrong"];
            act ["remove it"];
        Priority "SP068" Warning "the priority is incomplete or too low";
            "The kubelet does not look up the class. Without the number, the pod has no priority; if the number does not belong to the class, the API server refuses the mirror pod.";
            "a class without its number, a number without a class, or less than system-node-critical";
            confirm ["kubectl get priorityclass"];
            never ["that the pod can be evicted by the kubelet: static pods count as critical"];
            act ["write priorityClassName: system-node-critical and priority: 2000001000"];
        Namespace "SP069" Info "the namespace may not exist";
            "Where it does not, the pod runs without a mirror, so that kubectl does not show it.";
            "another namespace than default and those that a cluster begins with";
            confirm ["kubectl get namespace NAME"];
            never ["that the pod does not run"];
            act ["create the namespace"];
        ChoosesNodes "SP070" Warning "the pod has a node selector or node affinity";
            "The kubelet checks nodeSelector and required affinity of static pods too, and refuses the pod where this node does not match.";
            "nodeSelector or node affinity; a refused pod is Failed with NodeAffinity and has no sandbox";
            confirm ["kubectl get node NODE --show-labels"];
            never ["that it then runs on another node"];
            act ["remove it: the file is on the node where it is to run"];
        RuntimeClass "SP071" Warning "runtimeClassName needs the API server";
            "The kubelet looks the class up there, so that the pod cannot start before the API server answers. A kubelet without an API server panics over it, again after each start: there it is an error.";
            "runtimeClassName is set; for the error, this node's kubelet has no --kubeconfig";
            confirm ["kubectl get runtimeclass"];
            never ["that it fails on a node whose API server answers"];
            act ["remove it from pods that the API server itself needs"];
        EndsForGood "SP072" Info "a pod that has ended is not restarted";
            "With restartPolicy Never or OnFailure a static pod that has ended is run again only when its file changes or the kubelet restarts.";
            "restartPolicy";
            confirm ["crictl pods --name NAME"];
            never ["a fault, for a task that is to run once"];
            act ["write restartPolicy: Always for a service"];
        Refused "SP073" Warning "the kubelet loads the pod and refuses to run it";
            "Admission checks what validation does not: more cpu or memory than the node has, a sysctl that is not allowed, another operating system, AppArmor that the kernel does not enforce. The pod is Failed, has no sandbox, and the kubelet does not try again until the file changes or the kubelet restarts.";
            "the field, and what of the node or of the kubelet's settings is against it; the kubelet logs \"Pod was rejected\"";
            confirm ["journalctl -u kubelet | grep 'Pod was rejected'", "crictl pods --name NAME   # nothing"];
            never ["that the file is wrong by itself: another node may run it", "that a pod without this warning is admitted: what other pods hold is not counted"];
            act ["correct the field, or the node; then touch the file or restart the kubelet"];
        NeverStarts "SP074" Warning "the kubelet loads the pod, and it can never start";
            "The pod is admitted, but a container of it cannot be made: the image has no valid name, user 0 is not to be root, a seccomp or AppArmor profile is missing, or the kernel makes no user namespace. The kubelet tries for ever.";
            "the field, and what is missing; the container waits with InvalidImageName, CreateContainerConfigError or CreateContainerError";
            confirm ["crictl ps -a --name NAME", "journalctl -u kubelet | grep NAME"];
            never ["that the image can be pulled, if there is no warning: plegctl contacts no registry"];
            act ["correct the field, or provide what is missing: the kubelet tries again by itself"];
    }
    "Containers, ports, volumes, probes, resources" {
        Containers "SP080" Error "containers, their names and images";
            "A pod needs at least one container. Each container needs a unique name (lower case, digits, -) and an image without blanks around it.";
            "the container and the rule that it breaks";
            confirm ["plegctl static-pods lint PATH   # points at it"];
            never ["that the image exists: plegctl does not check this"];
            act ["correct the container"];
        MovingTag "SP081" Warning "the image tag is not fixed";
            "latest, or no tag, means another image tomorrow, and by default a pull at every start, while the registry may be out of reach.";
            "an image with neither another tag nor a digest";
            confirm ["crictl images"];
            never ["that the image has changed"];
            act ["pin a version or a digest"];
        AlwaysPulled "SP082" Warning "the image is pulled on every start";
            "With imagePullPolicy Always, a restart needs the registry. If the cluster is down because this pod does not run, the registry may be unreachable.";
            "imagePullPolicy Always";
            confirm ["crictl images"];
            never ["that the image is not on the node"];
            act ["write imagePullPolicy: IfNotPresent"];
        Port "SP083" Error "a port is not valid";
            "1 to 65535; TCP, UDP or SCTP in upper case; a name of at most 15 characters, once in the container.";
            "the port and the rule that it breaks";
            confirm ["grep -n -A8 ports: PATH"];
            never ["that a port must be declared to be used: it need not"];
            act ["correct it"];
        HostPortTwice "SP084" Error "a host port is taken twice in the pod, or differs from the container port";
            "With hostNetwork each containerPort is a port of the host, and hostPort must be the same number.";
            "the second port of the same protocol, address and number";
            confirm ["grep -nE 'hostPort|containerPort|hostNetwork' PATH"];
            never ["that the port is in use on the node: plegctl does not check this"];
            act ["give the ports different numbers, or remove hostPort"];
        Volume "SP085" Error "a volume or a mount is not valid";
            "Each mount names a volume that there is, each volume has one source, no path holds .., no mountPath is given twice in a container.";
            "the volume or the mount and the rule that it breaks; a bad volume counts as missing for its mounts too";
            confirm ["grep -nE -A12 'volumes:|volumeMounts:' PATH"];
            never ["two faults, where a volume and its mount are both named"];
            act ["correct the volume first"];
        EmptyByMistake "SP086" Warning "a volume without a source becomes an empty directory";
            "The kubelet drops a source that it does not know and makes an emptyDir of the rest: the container starts with nothing where its certificates should be.";
            "a volume that names no source, or one that is misspelt, such as hostpath";
            confirm ["grep -n -A12 volumes: PATH"];
            never ["that the kubelet refuses it"];
            act ["write hostPath, or emptyDir: {} if that is meant"];
        HostPathMissing "SP087" Warning "the hostPath is missing on this node";
            "Without a type the runtime may make an empty directory of it; with Directory, File, Socket or a device the pod waits for ever.";
            "the path and what is there instead, looked up on this node";
            confirm ["stat PATH"];
            never ["that it was missing when the pod started"];
            act ["bring it back, or use DirectoryOrCreate or FileOrCreate"];
        RelativePath "SP088" Warning "a path is relative, or a volume unused";
            "Validation accepts both; runtimes take a relative path in different ways, and an unused volume is mounted all the same.";
            "the path, or the volume that no container mounts";
            confirm ["grep -nE 'path:|mountPath:' PATH"];
            never ["that the kubelet refuses it"];
            act ["write the absolute path; remove the volume"];
        NotAllowedWord "SP089" Error "a value is not one of the allowed words";
            "Restart, DNS and pull policies, protocols, schemes and the like are compared letter by letter, in case too.";
            "the value and the words that there are";
            confirm ["kubectl explain pod.spec.FIELD"];
            never ["that always is Always"];
            act ["use one of the listed values"];
        Probe "SP090" Error "a probe is not valid";
            "Exactly one handler, a port from 1 to 65535 or a name, no negative numbers, successThreshold 1 for liveness and startup.";
            "the probe and the rule that it breaks";
            confirm ["grep -n -A10 Probe: PATH"];
            never ["that a quoted number is a port: it is taken for a name"];
            act ["correct the probe"];
        ProbeNeverSucceeds "SP091" Warning "a probe can never succeed";
            "It names a port that the container does not declare, which validation accepts: a liveness probe then restarts the container again and again.";
            "the port's name; as information, an HTTP path without its first /, which the kubelet adds";
            confirm ["crictl ps -a --name NAME   # attempts that rise", "kubectl describe pod | grep -i probe"];
            never ["that the container is at fault when it is restarted"];
            act ["declare a port of that name, or write its number"];
        Resources "SP092" Error "resources are not valid";
            "No request above its limit, no unknown resource, extended resources and huge pages with equal request and limit.";
            "the resource and the rule that it breaks";
            confirm ["grep -n -A8 resources: PATH"];
            never ["that the node has this much: plegctl does not check this"];
            act ["correct the amounts"];
        BareControlPlane "SP093" Info "a control-plane pod has no probes or no cpu request";
            "kubeadm gives its pods both; without them a hang is not noticed, and a busy node starves the pod.";
            "a pod with the labels or the image of a control-plane component";
            confirm ["grep -nE 'Probe:|cpu:' PATH"];
            never ["that it is why the component does not work"];
            act ["take the probes and the requests of kubeadm's manifest"];
        EnvTwice "SP094" Warning "an environment variable is given twice";
            "Validation accepts it, and the last one wins.";
            "the name, at its first place";
            confirm ["grep -n 'name: NAME' PATH"];
            never ["that the container sees the first"];
            act ["delete the others"];
        OtherRule "SP095" Error "another rule of the kubelet's validation";
            "The same validation as of the API server: security contexts, lifecycle hooks, affinity, sysctls, operating systems and more.";
            "the field and the rule that it breaks, in the kubelet's kind of words in kubeletReason";
            confirm ["journalctl -u kubelet | grep 'invalid pod'"];
            never ["that it is a rule of static pods alone"];
            act ["correct the field"];
    }
    "Across files" {
        SamePod "SP100" Error "two files define the same pod";
            "The kubelet keeps one of them and logs nothing: at each scan the last one in byte order, and after an edit the edited file, until the next scan. So an edit of the other file lasts at most 20 s.";
            "the file that wins and those that it shadows: x.yaml.bak, x.yaml~ and x.yaml.orig win over x.yaml";
            confirm ["ls -la PATH", "plegctl static-pods lint   # summary.pods: which file gives which pod"];
            never ["that the edited file is what runs", "that you can remove the extra file without effect: removing either file stops the pod until the next scan"];
            act ["move the stray file away and touch the real one at once; expect one restart"];
        SameUid "SP101" Error "two files have the same UID";
            "The kubelet keeps its pods by UID: the two overwrite each other at every scan, for ever.";
            "the same metadata.uid in two files of different pods";
            confirm ["grep -n 'uid:' PATH/*"];
            never ["which of them runs: it varies"];
            act ["remove metadata.uid from both, or give each its own"];
        HostPortShared "SP102" Error "two pods want the same host port";
            "The kubelet admits one of them and fails the other with NodePorts; which one is not defined.";
            "protocol, number and an address that overlaps; no address overlaps with every one";
            confirm ["ss -lntup | grep PORT", "kubectl get pods -A --field-selector status.phase=Failed"];
            never ["which of the two runs"];
            act ["change a port, then touch the file of the pod that failed"];
        FileGivesPod "SP105" Info "which file gives which pod";
            "The pod that the kubelet loads from each file of the directory.";
            "summary.pods, in the kubelet's order; this is not a finding";
            confirm ["plegctl static-pods lint -o wide"];
            never ["that the pods run: only the comparison with the runtime shows that"];
            act ["nothing"];
    }
    "Against the runtime" {
        NothingRuns "SP120" Error "a valid manifest has no running pod";
            "The kubelet would load the file, and there is no sandbox of its pod.";
            "no ready sandbox, with a file that is older than a scan and some room";
            confirm ["systemctl status kubelet", "journalctl -u kubelet | grep NAME"];
            never ["that the file is wrong", "that it was refused: the kubelet may be down, read another path, or wait for the old pod to end"];
            act ["read the kubelet's log for this pod: admission, image, volume", "lint the path that this kubelet reads"];
        NoManifest "SP121" Error "a static pod runs without a manifest";
            "Its file is gone, and the kubelet has not stopped it. As information: it came from staticPodURL and has no file.";
            "a ready sandbox of the file source whose pod no file gives";
            confirm ["crictl inspectp SANDBOX | grep config", "systemctl status kubelet"];
            never ["that it will stay: the kubelet stops no pod until all of its sources are ready, including the API server"];
            act ["let the kubelet reach the API server", "bring the file back if the pod is to run"];
        RejectedStillRuns "SP122" Error "the old version of a rejected manifest still runs";
            "The kubelet stops it at its next scan or, for a single file, when it restarts.";
            "a file that is refused, and a ready sandbox of its pod";
            confirm ["plegctl static-pods lint PATH   # why it is refused"];
            never ["that the file is good because the pod runs"];
            act ["correct the file now"];
        OtherContent "SP123" Error "the running containers or images differ from the file";
            "The edit was not taken up.";
            "a pod that no release would make from this text, or other containers, images or container hashes than the file's";
            confirm ["crictl inspectp SANDBOX", "plegctl static-pods lint -o json   # runs, madeBy, notChecked"];
            never ["that the kubelet hangs: a second file of the pod (SP100), a fixed UID (SP065) or the end of the old pod does the same"];
            act ["look for SP100 and SP065", "wait for the next scan and for the end of the old pod", "read the kubelet's log for this pod"];
        OtherSettings "SP124" Warning "labels, annotations or settings differ from the file";
            "The running pod was started with other values than those in the file now.";
            "the property, with both values";
            confirm ["crictl inspectp SANDBOX"];
            never ["that somebody changed the running pod"];
            act ["check that the kubelet has read the file, and look for a second file that defines this pod"];
        TouchedSince "SP125" Warning "the file was touched after the pod started";
            "Commands and environment are not in the runtime's lists, so an edit of them is not visible there.";
            "a file that is newer than the sandbox, and no difference that shows";
            confirm ["stat PATH", "crictl inspect CONTAINER   # its arguments"];
            never ["that it was edited: touch, chmod and a copy do the same"];
            act ["compare the arguments; with a fixed UID change it too"];
        TwoVersions "SP126" Error "two versions of a pod run at once";
            "The old and the new pod use the same ports and data at once. The kubelet did not stop the old one, because not all of its sources were ready.";
            "two ready sandboxes of one name with different UIDs";
            confirm ["crictl pods --name NAME --state ready"];
            never ["that the younger one is the one that works"];
            act ["look at both, then stop the older one: crictl stopp SANDBOX (changes state)"];
        SeveralSandboxes "SP127" Warning "a pod has several ready sandboxes";
            "The kubelet will stop them and create a new one.";
            "two ready sandboxes with one UID";
            confirm ["crictl pods --name NAME --state ready"];
            never ["that it must be done by hand"];
            act ["wait for the kubelet's next sync of the pod"];
        CrashLoop "SP128" Error "a container crashes again and again";
            "The file is taken up and the program in it ends with an error.";
            "attempts that rise, the last exit code and its time";
            confirm ["crictl logs CONTAINER", "tail /var/log/pods/NAMESPACE_NAME_UID/CONTAINER/*.log"];
            never ["that the manifest is refused"];
            act ["read its log: a wrong argument, a missing file or a port that is taken, as a rule"];
        NeverCreated "SP129" Warning "a container of the manifest was never created";
            "The sandbox exists, but this container does not: its image, its volumes or its settings prevent it.";
            "a ready sandbox without a container of that name";
            confirm ["journalctl -u kubelet | grep NAME", "crictl images"];
            never ["a fault, while init containers still run or an image is pulled"];
            act ["read the kubelet's log for its image pull, its hostPath volumes and its settings"];
        OtherUid "SP130" Warning "the running pod has another UID than the file";
            "The file has its own UID, and the running pod was created before the file had it.";
            "metadata.uid and the sandbox's config.hash differ";
            confirm ["crictl inspectp SANDBOX | grep config.hash"];
            never ["that it stays so: the kubelet may be ending the old pod"];
            act ["wait for the next scan; if it stays so, read the kubelet's log"];
        NodeNamedDifferently "SP131" Info "the node has another name than assumed";
            "The names of the sandboxes end with another node name than was assumed, so that names and UIDs of this run are not the kubelet's.";
            "the suffix of the sandbox's name";
            confirm ["kubectl get nodes", "tr '\\0' ' ' </proc/KUBELET/cmdline"];
            never ["that the pods are wrong"];
            act ["plegctl static-pods lint --node-name NODE"];
        ManySandboxes "SP132" Info "the sandbox of a pod was replaced many times";
            "The number of times that its sandbox was replaced since the oldest one that is still listed.";
            "the number of sandboxes that are not ready, and the time of the first";
            confirm ["crictl pods --name NAME"];
            never ["a crash of its containers: those restart inside one sandbox"];
            act ["look for edits, kubelet restarts and reboots of that time"];
        OtherRelease "SP134" Info "the running pod was made by a kubelet of another release";
            "Its UID is the one that another release gives this file; the requested release would give another one and restart the pod.";
            "the UID that runs, and the release that gives it (madeBy)";
            confirm ["kubelet --version", "plegctl static-pods lint --upgrade-to VERSION"];
            never ["that the file was edited since: the UID of another release does not show an edit", "that every letter is the same: `[\"a\", \"b\"]` and `[\"a b\"]` have one UID"];
            act ["nothing, unless an upgrade is under way"];
    }
    "Against the API server (`--api-pods`)" {
        NoMirror "SP135" Warning "a static pod has no mirror pod in the API server";
            "The kubelet makes a mirror pod of each static pod, so that the API server shows it. This one has none: kubectl, the scheduler and monitoring do not know that it is there.";
            "the manifest, the pod's name and the possible causes (ruled-out causes are omitted): a reference to an API object, a missing namespace, an admission rule, a kubelet that cannot reach the API server or did not admit the pod";
            confirm ["journalctl -u kubelet | grep -i 'mirror pod'", "kubectl get namespace NAMESPACE", "plegctl pods --manifests PATH --kubeconfig FILE"];
            never ["that the pod does not run", "anything within a minute of an edit"];
            act ["what the kubelet's log names: make the namespace, relax the rule, take the reference out of the manifest"];
        OldMirror "SP136" Warning "the API server shows another version of a static pod";
            "The mirror's annotation kubernetes.io/config.mirror is not the hash of this file: kubectl shows the text and the image of another version.";
            "the manifest, and the hash in the mirror pod";
            confirm ["kubectl get pod NAME -o jsonpath='{.metadata.annotations}'", "plegctl pods --manifests PATH --kubeconfig FILE"];
            never ["that the old version runs: check the runtime", "anything within a minute of an edit", "by the API's UID of the mirror, which is always another one"];
            act ["check whether the kubelet reaches the API server; it then replaces the mirror pod by itself"];
        NameTaken "SP137" Error "another pod of the API server has a static pod's name";
            "A pod that is not a mirror pod has the name of this static pod on this node. The kubelet runs only one of the two, and the static pod gets no mirror pod.";
            "the manifest, and the pod that has its name";
            confirm ["kubectl get pod NAME -o yaml   # no annotation kubernetes.io/config.mirror", "plegctl pods --manifests PATH --kubeconfig FILE"];
            never ["that the two are one pod: their UIDs differ"];
            act ["rename one of them"];
    }
    "Against another release (`--upgrade-to`)" {
        NotLoadedThen "SP140" Error "the new release does not load the file";
            "The upgrade stops this pod and does not start it again.";
            "loaded by the release that runs, refused by the other, with its reason";
            confirm ["plegctl static-pods lint --kubelet-version NEW PATH"];
            never ["that the running kubelet has any objection"];
            act ["correct the file before the upgrade"];
        LoadedThen "SP141" Warning "the new release loads a file that the old one refuses";
            "The upgrade starts a pod that does not run today.";
            "refused by the release that runs, loaded by the other";
            confirm ["plegctl static-pods lint PATH   # why it is refused today"];
            never ["that somebody wants it to run"];
            act ["remove the file, or correct it now"];
        RestartsThen "SP142" Info "the upgrade restarts the pod";
            "Every release prints a Pod in its own way and hashes that text, so that the same file has another UID there: the pod is stopped and started within a minute of the kubelet's start.";
            "the two UIDs";
            confirm ["plegctl static-pods lint --upgrade-to VERSION -o json"];
            never ["that the file must be changed: the restart is part of the upgrade"];
            act ["upgrade one control-plane node at a time and wait for its etcd member"];
        ObeyedThen "SP143" Warning "the new release uses fields that the old one drops";
            "They have been in the file without effect; from the upgrade on they have one.";
            "the fields that only the new release knows, or for which only there the gate is open";
            confirm ["plegctl static-pods lint PATH   # SP053 names them today"];
            never ["that they are right: no kubelet has read them yet"];
            act ["remove them, or make sure that they are meant"];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_ids_are_in_ascending_order() {
        assert!(Check::ALL.windows(2).all(|pair| pair[0].id() < pair[1].id()));
    }

    #[test]
    fn a_check_is_found_by_its_id() {
        assert_eq!(Check::named("sp053"), Some(Check::UnknownField));
        assert_eq!(Check::named("SP999"), None);
    }

    #[test]
    fn each_row_has_all_fields_that_explain_prints() {
        for check in Check::ALL {
            let Rule { id, title, means, shows, confirm, never, act } = &check.row().rule;
            let lists = [confirm, never, act].map(|list| list.len());
            assert!(lists.iter().all(|length| *length > 0), "{id}");
            assert!([title, means, shows].iter().all(|text| !text.is_empty()), "{id}");
        }
    }
}
