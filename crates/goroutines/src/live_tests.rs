//! Tests for `live`: which pods, containers and processes it names. The tests write their own copies of `/proc`.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::judge::{DumpSource, KnownHangs, judge, rebuild_summary};
use super::live::{NodeView, add_child_ages, add_names};
use super::read::{Bounds, read};
use super::report::{Finding, StackReport};
use super::signatures::signatures;
use super::tests::{goroutine, serving};
use super::wait;
use plegctl_base::report::{Confidence, Severity};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const SANDBOX: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const DAEMON: u32 = 4242;

/// A directory with the files of `/proc` that `live` reads. Dropping it deletes the directory.
struct Processes(PathBuf);

impl Processes {
    /// Creates a copy that has only the process [`DAEMON`], with the name `daemon`.
    fn new(test: &str, daemon: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plegctl-live-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let processes = Self(path);
        processes.add(DAEMON, daemon, 'S', 1, "/", &[daemon]);
        processes
    }

    fn add(&self, pid: u32, comm: &str, state: char, parent: u32, cgroup: &str, command: &[&str]) {
        let dir = self.0.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("stat"), format!("{pid} ({comm}) {state} {parent} 1 1 0\n")).unwrap();
        fs::write(dir.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
        fs::write(dir.join("cmdline"), command.join("\0")).unwrap();
    }

    /// Adds a child of the daemon that has run for `hundredths` of a second, and the daemon's pidfd 0x1d for it.
    fn add_child(&self, pid: u32, comm: &str, hundredths: u64) {
        self.add(pid, comm, 'S', DAEMON, "/", &[comm]);
        let (up, dir) = (9000, self.0.join(DAEMON.to_string()).join("fdinfo"));
        let started = up * 100 - hundredths;
        let stat = format!("{pid} ({comm}) S {DAEMON} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 {started} 0 0\n");
        fs::write(self.0.join(pid.to_string()).join("stat"), stat).unwrap();
        fs::write(self.0.join("uptime"), format!("{up}.00 0.00\n")).unwrap();
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("29"), format!("pos:\t0\nPid:\t{pid}\nNSpid:\t{pid}\n")).unwrap();
    }

    /// Writes `bytes` at an address of the daemon's memory.
    fn write_memory(&self, at: u64, bytes: &[u8]) {
        let path = self.0.join(DAEMON.to_string()).join("mem");
        let mut file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn add_conmon(&self, pid: u32, state: char, id: &str) {
        let command =
            ["conmon", "-b", "/run/x", "-c", id, "-n", "k8s_app_web-18_shop_uid-18_0", "-P", "/run/y"];
        self.add(pid, "conmon", state, 1, "/", &command);
    }

    /// Judges a dump of [`DAEMON`] and adds names from this copy of `/proc`.
    fn report(&self, source: DumpSource) -> StackReport {
        let mut sources = [source];
        add_child_ages(&mut sources[0], &NodeView::at(&self.0));
        let mut report = judge(&sources, &signatures(), &KnownHangs::default());
        add_names(&mut report, &sources, &NodeView::at(&self.0));
        rebuild_summary(&mut report);
        report
    }

    fn report_of(&self, text: &str) -> StackReport {
        let dump = read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0);
        self.report(DumpSource {
            name: "dump".into(),
            dump,
            pid: Some(DAEMON),
            is_requested_here: true,
            ..DumpSource::default()
        })
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn first(report: &StackReport) -> &Finding {
    report.findings.first().unwrap()
}

fn pod_and_container(finding: &Finding) -> (String, String) {
    let holder = finding.holder.as_ref().unwrap();
    let pod = holder.pod.as_ref().map(ToString::to_string).unwrap_or_default();
    (pod, holder.container.as_ref().map(|container| container.name.clone()).unwrap_or_default())
}

#[test]
fn a_stopped_shim_makes_a_finding_with_waiters_by_address_certain_at_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings/stacks/c2-lock.t5.usr1.gz");
    let source = || {
        let dump = read(fs::File::open(&path).unwrap(), Bounds::default()).unwrap().dumps.remove(0);
        DumpSource {
            name: "dump".into(),
            dump,
            pid: Some(DAEMON),
            is_requested_here: true,
            ..DumpSource::default()
        }
    };
    let init = source().dump.goroutines.iter().find_map(wait::updated_init_pid).unwrap();
    for (state, confidence, severity) in
        [('T', Confidence::Certain, Severity::Critical), ('S', Confidence::Possible, Severity::Info)]
    {
        let processes = Processes::new(&format!("shim-{state}"), "containerd");
        processes.add(977, "containerd-shim", state, 1, "/", &["containerd-shim-runc-v2", "-id", SANDBOX]);
        processes.add(init, "app", 'S', 977, &format!("/kubepods/poduid-1/{ID}"), &["app"]);
        let report = processes.report(source());
        let finding = first(&report);
        assert_eq!(
            (finding.id.as_str(), finding.confidence, finding.severity),
            ("ST01", confidence, severity),
            "{report:#?}"
        );
        assert_eq!(finding.holder.as_ref().unwrap().waits_for.pid, Some(977));
        assert_eq!(report.has_problem(), state == 'T');
    }
}

#[test]
fn a_wait_is_not_longer_than_the_age_of_its_child_process() {
    let text = |state: &str| {
        serving(
            30,
            state,
            "RunPodSandbox",
            &[
                "syscall.Syscall6(0xf7, 0x3, 0x1d, 0xc000120000, 0x4, 0x0, 0x0)",
                "os.(*Process).pidfdWait(0xc000130000)",
                "os/exec.(*Cmd).Wait(0xc000110000)",
                "github.com/containernetworking/cni/pkg/invoke.(*RawExec).ExecPlugin(0xc000140000)",
                "github.com/cri-o/ocicni/pkg/ocicni.(*cniNetworkPlugin).SetUpPodWithContext(0xc000150000)",
            ],
        )
    };
    // Go printed these ages for a plugin that had run for 2.9 s, after a time without garbage collections.
    for state in ["syscall", "syscall, 1 minutes", "syscall, 3 minutes"] {
        let processes = Processes::new("child-age", "crio");
        processes.add_child(700, "bridge", 290);
        let report = processes.report_of(&text(state));
        let finding = first(&report);
        assert_eq!((finding.id.as_str(), finding.confidence), ("ST03", Confidence::Possible), "{report:#?}");
        let sentence = "a RunPodSandbox waits about 2 s for a CNI plugin (pid 700, sleeping, bridge)";
        assert_eq!((report.summary.as_str(), report.has_problem()), (sentence, false));
        processes.add_child(700, "bridge", 20_000);
        let report = processes.report_of(&text(state));
        assert!(report.summary.contains("waits about 3 min for"), "{}", report.summary);
        assert_eq!(first(&report).confidence, Confidence::Likely, "{report:#?}");
    }
}

/// Returns a goroutine of CRI-O that creates a container and waits for conmon.
fn hanging_create(id: u64) -> String {
    let frame = format!(
        "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).CreateContainer(0xc000100000, {{0x1, 0x2}}, 0xc000{id:03}800, {{0xc000120000, 0xd}}, 0x0)"
    );
    serving(id, "select", "CreateContainer", &[&frame])
}

#[test]
fn a_create_that_hangs_below_conmon_names_its_pod_and_its_process() {
    let processes = Processes::new("create", "crio");
    processes.add_conmon(500, 'S', ID);
    processes.add(
        600,
        "runc",
        'S',
        500,
        "/",
        &["runc", "--root", "/run/runc", "create", "--bundle", "/x", ID],
    );
    // `runc:[2:INIT]` is already inside its container and is not the hanging `runc create`.
    processes.add(601, "runc:[2:INIT]", 'S', 500, "/", &["runc", "init"]);
    let report = processes.report_of(&hanging_create(70));
    let finding = first(&report);
    assert_eq!(pod_and_container(finding), ("shop/web-18".to_owned(), "app".to_owned()), "{report:#?}");
    let on = &finding.holder.as_ref().unwrap().waits_for;
    assert_eq!(
        (on.pid, on.path.as_deref(), on.state.as_deref()),
        (Some(600), Some("runc"), Some("sleeping"))
    );
    let evidence = finding.evidence.join("\n");
    assert!(
        evidence.contains("runc create (pid 600, sleeping), which conmon (pid 500) started"),
        "{evidence}"
    );

    // With two running creates, nothing shows which of them the goroutine waits for.
    processes.add_conmon(501, 'S', SANDBOX);
    processes.add(602, "runc", 'S', 501, "/", &["runc", "create", SANDBOX]);
    for text in [hanging_create(70), hanging_create(70) + &hanging_create(71)] {
        let report = processes.report_of(&text);
        assert_eq!(first(&report).holder.as_ref().unwrap().waits_for.pid, None, "{report:#?}");
    }
}

#[test]
fn a_create_that_hangs_below_a_shim_names_its_pod_the_shim_and_the_process() {
    let processes = Processes::new("shim-create", "containerd");
    processes.add(977, "containerd-shim", 'S', 1, "/", &["containerd-shim-runc-v2", "-id", SANDBOX]);
    processes.add(978, "pause", 'S', 977, &format!("/kubepods/poduid-1/{SANDBOX}"), &["/pause"]);
    processes.add(
        812,
        "runc",
        'S',
        977,
        "/",
        &["runc", "--root", "/run/containerd/runc/k8s.io", "create", ID],
    );
    let text = goroutine(
        30,
        "select",
        &[
            "github.com/containerd/ttrpc.(*Client).dispatch(0xc000200000, {0x1, 0x2})",
            "github.com/containerd/containerd/api/runtime/task/v3.(*ttrpctaskClient).Create(0xc000300000)",
            "github.com/containerd/containerd/v2/internal/cri/server.(*criService).StartContainer(0xc000400000, {0x1, 0x2}, 0x1?)",
            "k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_StartContainer_Handler({0x1, 0x2})",
        ],
    );
    let report = processes.report_of(&text);
    let finding = first(&report);
    assert_eq!(finding.id, "ST02");
    let holder = finding.holder.as_ref().unwrap();
    assert_eq!(
        (holder.pod.as_ref().unwrap().uid.as_str(), holder.waits_for.pid),
        ("uid-1", Some(977)),
        "{report:#?}"
    );
    assert_eq!(holder.container.as_ref().unwrap().id, ID);
    let evidence = finding.evidence.join("\n");
    assert!(evidence.contains("that shim waits for runc create (pid 812, sleeping)"), "{evidence}");
}

#[test]
fn the_request_in_memory_and_conmon_name_the_container_whose_log_is_not_reopened() {
    for first_field in [0_u64, 8] {
        let processes = Processes::new(&format!("log-{first_field}"), "crio");
        processes.add_conmon(500, 'T', ID);
        processes.write_memory(0xc_0000 + first_field, &0x30_0000_u64.to_le_bytes());
        processes.write_memory(0xc_0000 + first_field + 8, &64_u64.to_le_bytes());
        processes.write_memory(0x30_0000, ID.as_bytes());
        let text = serving(
            40,
            "select",
            "ReopenContainerLog",
            &["github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).ReopenContainerLog(0xc000100000, {0x1, 0x2}, 0xc000300000)"],
        )
        .replace("0xc000040000)", "0xc0000)");
        let report = processes.report_of(&text);
        let finding = first(&report);
        assert_eq!(finding.id, "ST12");
        assert_eq!(pod_and_container(finding), ("shop/web-18".to_owned(), "app".to_owned()), "{report:#?}");
        let on = &finding.holder.as_ref().unwrap().waits_for;
        assert_eq!((on.pid, on.state.as_deref()), (Some(500), Some("stopped")), "{report:#?}");
        assert_eq!(finding.confidence, Confidence::Likely);
    }
}
