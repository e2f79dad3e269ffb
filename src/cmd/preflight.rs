//! `plegctl preflight`: will a kubelet start on this node and keep running?
//!
//! ```text
//! $ plegctl preflight --upgrade-to 1.36
//! error[KP002]: --pod-infra-container-image was removed in 1.35, so kubelet 1.36 does not start
//!     the kubelet: failed to parse kubelet flag: unknown flag: --pod-infra-container-image
//!     fix: remove the flag
//! ```
//!
//! The command reads the settings of this node's kubelet, or the files that the user names. It starts no kubelet and
//! changes nothing.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::context::{Context, block_on};
use super::output::Output;
use super::render::{Style, preflight as text, sarif};
use super::{Error, Exit, complete};
use crate::host::proc::NodeMount;
use crate::host::{self, HostRoot, kernel_text, shell_words};
use crate::kubelet::{KubeletSettings, KubeletVersion, drop_ins, kubeadm_settings};
use crate::manifests::Severity;
use crate::manifests::preflight::{
    self, Builder, CgroupVersion, ConfigFile, ConfigFileError, NEWEST, NodeFacts, PreflightReport, RELEASES,
    StartCheck, StartFinding, StartSettings, TargetKubelet,
};
use crate::manifests::upgrade::UpgradedFile;
use crate::report::load::load;
use crate::report::{NotChecked, document, most_similar};

/// The largest configuration file that is read. A usual one has a few kilobytes.
const LARGEST_CONFIG: usize = 1 << 20;

/// Check whether a kubelet starts with these settings.
#[derive(Debug, Args)]
#[command(mut_arg("config", |config| config.help(
    "The kubelet's configuration file to check, without a node [default: the running kubelet's]"
)))]
pub struct PreflightArgs {
    /// The release that is to start, such as 1.37 [default: the release that runs here]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    upgrade_to: Option<KubeletVersion>,

    /// The release that runs now, such as 1.36 [default: what the kubelet's metrics say]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// The kubelet's command line to check, without a node, such as "--max-pods=250 --v=2"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    flags: Option<String>,

    /// What makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    fail_on: FailingSeverity,

    /// Skip these checks, such as KP013,KP003; may be given more than once
    #[arg(long, value_name = "ID", value_parser = start_check, value_delimiter = ',', add = ArgValueCompleter::new(complete::start_checks))]
    ignore: Vec<StartCheck>,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&FORMS))]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailingSeverity {
    /// Errors: the kubelet does not start, or does not keep running
    Error,
    /// Warnings too: something that is probably a mistake
    Warning,
    /// Any finding
    Info,
    /// Nothing
    Never,
}

const FORMS: [Output; 5] = [Output::Table, Output::Json, Output::Yaml, Output::Jsonl, Output::Sarif];

/// Parses the id of a check. An unknown id is an error, because `--ignore` would have no effect.
fn start_check(text: &str) -> Result<StartCheck, String> {
    if let Some(check) = StartCheck::named(text) {
        return Ok(check);
    }
    let near = most_similar(&text.to_uppercase(), StartCheck::ALL.iter().map(|check| check.id()));
    Err(near.map_or_else(
        || "there is no such check; their names look like KP011".to_owned(),
        |near| format!("there is no such check; did you mean {near}?"),
    ))
}

/// Runs the command. `config` is the kubelet's configuration file, which takes the place of crictl's settings file.
pub fn run(arguments: &PreflightArgs, config: Option<&Path>, context: &Context) -> Result<Exit, Error> {
    let examined = if config.is_some() || arguments.flags.is_some() {
        arguments.files(config)?
    } else {
        arguments.node(context)?
    };
    let release = arguments.upgrade_to.or(examined.release).ok_or(Error::NoRelease)?;
    let kubelet = TargetKubelet { release, builder: examined.builder };
    let judged = preflight::settings_findings(&examined.settings, kubelet);
    let mut not_checked = examined.not_checked;
    not_checked.extend(outside_of_tables(release));
    let mut findings = judged.findings;
    let mut pods = Vec::new();
    if let (Some(from), Some(to), Some(directory)) =
        (examined.release, arguments.upgrade_to, examined.static_pods)
    {
        match compared_static_pods(context, directory, examined.node.clone(), from, to) {
            Ok((files, of_pods)) => {
                pods = files;
                findings.extend(of_pods);
            }
            Err(why) => not_checked.push(NotChecked { what: "the static pods".to_owned(), why }),
        }
    }
    let report = PreflightReport {
        node: examined.node,
        release: examined.release.map(|release| release.to_string()),
        upgrade_to: arguments.upgrade_to.map(|release| release.to_string()),
        settings: examined.source,
        findings,
        pods,
        not_checked,
        counts: preflight::FindingCounts::default(),
        summary: String::new(),
        texts: judged.texts,
    };
    let ignored: HashSet<StartCheck> = arguments.ignore.iter().copied().collect();
    let report = report.finished(|check| ignored.contains(&check));
    let mut out = io::BufWriter::new(io::stdout().lock());
    render(arguments.output, &report, context.style(), &mut out)?;
    out.flush()?;
    Ok(arguments.exit(report.worst()))
}

fn render(format: Output, report: &PreflightReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Output::Sarif => sarif::write_preflight(report, out),
        _ if format.document(&document(report), out)? => Ok(()),
        _ => text::table(report, style, out),
    }
}

/// Notes a release whose gates and flags are not, or not completely, known.
fn outside_of_tables(release: KubeletVersion) -> Option<NotChecked> {
    let minor = release.minor();
    let why = match minor {
        _ if minor < *RELEASES.start() => {
            format!(
                "plegctl knows releases from 1.{} on; the rules of that release were used",
                RELEASES.start()
            )
        }
        _ if minor > NEWEST => {
            format!("plegctl knows releases up to 1.{NEWEST}; the rules of that release were used")
        }
        NEWEST => "its list comes partly from release notes; no such kubelet was tried".to_owned(),
        _ => return None,
    };
    Some(NotChecked { what: format!("gates and flags that only kubelet {release} has"), why })
}

/// Compares what both releases do with the manifests in `directory`.
fn compared_static_pods(
    context: &Context,
    directory: PathBuf,
    node: Option<String>,
    from: KubeletVersion,
    to: KubeletVersion,
) -> Result<(Vec<UpgradedFile>, Vec<StartFinding>), String> {
    if let Some(unknown) = [from, to].into_iter().find(|release| release.known() != *release) {
        return Err(format!("the rules of kubelet {unknown} for static pods are not known"));
    }
    let below = context.host.path(&directory);
    let node = node.unwrap_or_else(|| "localhost".to_owned());
    let compare = move || preflight::compare_static_pods(&below, &directory, &node, from, to);
    context
        .in_time("the directory of manifests", compare)
        .ok_or_else(|| "reading them takes too long".to_owned())
}

/// What is to be judged.
struct ExaminedSettings {
    settings: StartSettings,
    release: Option<KubeletVersion>,
    builder: Builder,
    node: Option<String>,
    /// The directory of manifests, as the kubelet sees it.
    static_pods: Option<PathBuf>,
    source: String,
    not_checked: Vec<NotChecked>,
}

impl PreflightArgs {
    /// Reads the files that the user named.
    fn files(&self, config: Option<&Path>) -> Result<ExaminedSettings, Error> {
        let file = config.map(|path| {
            let name = path.display().to_string();
            let read = if path.as_os_str() == "-" {
                crate::report::load::stdin(LARGEST_CONFIG)
            } else {
                load(path, LARGEST_CONFIG)
            };
            let content = read.map_err(|source| Error::Read { name: name.clone(), source })?;
            Ok::<_, Error>(ConfigFile { path: Arc::from(name), content: Ok(content), is_drop_in: false })
        });
        let settings = StartSettings {
            arguments: shell_words(self.flags.as_deref().unwrap_or_default()),
            files: file.transpose()?.into_iter().collect(),
            cgroups: None,
            node: None,
        };
        let builder =
            if preflight::is_of_openshift(&settings) { Builder::OpenShift } else { Builder::Unknown };
        let source = match (config, &self.flags) {
            (Some(path), Some(_)) => format!("{} and --flags", path.display()),
            (Some(path), None) => path.display().to_string(),
            _ => "--flags".to_owned(),
        };
        Ok(ExaminedSettings {
            settings,
            release: self.kubelet_version,
            builder,
            node: None,
            static_pods: None,
            source,
            not_checked: vec![NotChecked {
                what: "the node".to_owned(),
                why: "only files were given".to_owned(),
            }],
        })
    }

    /// Reads the settings of this node's kubelet, or of kubeadm's files if no kubelet runs.
    fn node(&self, context: &Context) -> Result<ExaminedSettings, Error> {
        let running = context.kubelet();
        let host = context.host.clone();
        let (own, source) = if let Some(kubelet) = running {
            (kubelet.settings().clone(), format!("settings of the kubelet with pid {}", kubelet.pid))
        } else {
            let host = host.clone();
            let read = context.in_time("kubeadm's files", move || kubeadm_settings(&host)).flatten();
            (read.ok_or(Error::NoKubelet)?, "settings in kubeadm's files; no kubelet runs".to_owned())
        };
        let release = match self.kubelet_version {
            Some(release) => Some(release),
            None if running.is_some() => block_on(context.kubelet_release())?,
            None => None,
        };
        let pid = running.map(|kubelet| kubelet.pid);
        let now = context.clock.wall().nanos() / 1_000_000_000;
        let read = {
            let own = own.clone();
            move || (settings_of(&own, &host, pid, now), builder_of(&host))
        };
        let (settings, builder) = context
            .in_time("the kubelet's configuration", read)
            .ok_or_else(|| Error::Start(io::Error::from(io::ErrorKind::TimedOut)))?;
        let builder = if preflight::is_of_openshift(&settings) { Builder::OpenShift } else { builder };
        Ok(ExaminedSettings {
            release,
            builder,
            node: context.node_name(),
            static_pods: own
                .setting("pod-manifest-path", "staticPodPath")
                .ok()
                .flatten()
                .map(|setting| PathBuf::from(setting.value)),
            source,
            not_checked: not_checked(&own, &settings),
            settings,
        })
    }

    fn exit(&self, worst: Option<Severity>) -> Exit {
        let bad = match self.fail_on {
            FailingSeverity::Error => Severity::Error,
            FailingSeverity::Warning => Severity::Warning,
            FailingSeverity::Info => Severity::Info,
            FailingSeverity::Never => return Exit::Good,
        };
        if worst.is_some_and(|worst| worst >= bad) { Exit::Bad } else { Exit::Good }
    }
}

/// What of the node could not be read.
fn not_checked(own: &KubeletSettings, settings: &StartSettings) -> Vec<NotChecked> {
    let mut skipped = Vec::new();
    let mut skip = |what: &str, why: &str| {
        skipped.push(NotChecked { what: what.to_owned(), why: why.to_owned() });
    };
    if !own.is_plain_kubelet() {
        skip(
            "the settings that the program gives to the kubelet inside it",
            "they are on no command line and in no file",
        );
    }
    if settings.cgroups.is_none() {
        skip(
            "the cgroup version",
            "/sys/fs/cgroup is not in the list of mounts, or failCgroupV1 is not known",
        );
    }
    let node = settings.node.as_ref();
    if node.is_none_or(|node| node.swaps.is_none()) {
        skip("swap", "/proc/swaps cannot be read, or failSwapOn is not known");
    }
    if node.is_none_or(|node| node.inotify.is_none()) {
        skip("the inotify instances of root", "the descriptors of some processes cannot be read");
    }
    skip("whether the runtime serves CRI v1", "preflight makes no call to the runtime; plegctl health does");
    skipped
}

/// Reads the files that a kubelet's command line names, and the node. `pid` is the kubelet that runs now.
fn settings_of(settings: &KubeletSettings, host: &HostRoot, pid: Option<u32>, now: i64) -> StartSettings {
    let mut files = Vec::new();
    if let Some(path) = settings.flag("config") {
        files.push(config_file(Path::new(path), host, false));
    }
    if let Some(directory) = settings.flag("config-dir") {
        let below = host.path(directory);
        if below.exists() {
            let found = drop_ins(&below).into_iter();
            files.extend(found.map(|path| {
                let rest = path.strip_prefix(&below).map_or_else(|_| path.clone(), Path::to_path_buf);
                config_file(&Path::new(directory).join(rest), host, true)
            }));
        } else {
            let path = Arc::from(directory);
            files.push(ConfigFile { path, content: Err(ConfigFileError::Missing), is_drop_in: true });
        }
    }
    let proc = host::proc();
    StartSettings {
        arguments: settings.own_arguments().to_vec(),
        files,
        // A program that contains a kubelet may set failCgroupV1 where nobody sees it.
        cgroups: if preflight::is_given(settings, "fail-cgroupv1", "failCgroupV1") {
            cgroups(pid.unwrap_or(1))
        } else {
            None
        },
        node: Some(NodeFacts::read(settings, host, &proc, pid, now)),
    }
}

fn config_file(path: &Path, host: &HostRoot, is_drop_in: bool) -> ConfigFile {
    let content = load(&host.path(path), LARGEST_CONFIG).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => ConfigFileError::Missing,
        _ => ConfigFileError::Unreadable(why.to_string()),
    });
    ConfigFile { path: Arc::from(path.display().to_string()), content, is_drop_in }
}

/// The cgroup version that a process sees. The kubelet asks for the file system of `/sys/fs/cgroup`.
fn cgroups(pid: u32) -> Option<CgroupVersion> {
    let path: PathBuf = host::proc().join(pid.to_string()).join("mountinfo");
    let mounts = NodeMount::all(&kernel_text(&path).ok()?);
    let last = mounts.iter().rev().find(|mount| mount.target == "/sys/fs/cgroup")?;
    match last.kind.as_str() {
        "cgroup2" => Some(CgroupVersion::V2),
        "tmpfs" | "cgroup" => Some(CgroupVersion::V1),
        _ => None,
    }
}

/// Who built the kubelet of this node, from the name of its operating system.
fn builder_of(host: &HostRoot) -> Builder {
    let texts = ["/etc/os-release", "/usr/lib/os-release"].map(|path| load(&host.path(path), 64 << 10));
    let Some(text) = texts.into_iter().find_map(Result::ok) else { return Builder::Unknown };
    let text = String::from_utf8_lossy(&text);
    let is_openshift = text.lines().any(|line| {
        line.starts_with("OPENSHIFT_VERSION=")
            || matches!(line.replace('"', "").as_str(), "ID=rhcos" | "ID=scos")
    });
    if is_openshift { Builder::OpenShift } else { Builder::Upstream }
}
