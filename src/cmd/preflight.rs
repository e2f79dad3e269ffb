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
use crate::host::proc::Mount;
use crate::host::{self, HostRoot, kernel_text};
use crate::kubelet::{KubeletSettings, KubeletVersion, drop_ins};
use crate::manifests::Severity;
use crate::manifests::preflight::{
    self, Builder, CgroupVersion, ConfigFile, ConfigFileError, NEWEST, PreflightReport, RELEASES, StartCheck,
    StartSettings, TargetKubelet, words,
};
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
    let report = PreflightReport {
        node: examined.node,
        release: examined.release.map(|release| release.to_string()),
        upgrade_to: arguments.upgrade_to.map(|release| release.to_string()),
        settings: examined.source,
        findings: judged.findings,
        pods: Vec::new(),
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

/// What is to be judged.
struct ExaminedSettings {
    settings: StartSettings,
    release: Option<KubeletVersion>,
    builder: Builder,
    node: Option<String>,
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
            arguments: words(self.flags.as_deref().unwrap_or_default()),
            files: file.transpose()?.into_iter().collect(),
            cgroups: None,
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
            source,
            not_checked: vec![NotChecked {
                what: "the node".to_owned(),
                why: "only files were given".to_owned(),
            }],
        })
    }

    /// Reads the settings of this node's kubelet.
    fn node(&self, context: &Context) -> Result<ExaminedSettings, Error> {
        let kubelet = context.kubelet().ok_or(Error::NoKubelet)?;
        let release = match self.kubelet_version {
            Some(release) => Some(release),
            None => block_on(context.kubelet_release())?,
        };
        let (own, host, pid) = (kubelet.settings().clone(), context.host.clone(), kubelet.pid);
        let read = move || (settings_of(&own, &host, pid), builder_of(&host));
        let (settings, builder) = context
            .in_time("the kubelet's configuration", read)
            .ok_or_else(|| Error::Start(io::Error::from(io::ErrorKind::TimedOut)))?;
        let builder = if preflight::is_of_openshift(&settings) { Builder::OpenShift } else { builder };
        let mut not_checked = Vec::new();
        if !kubelet.settings().is_plain_kubelet() {
            not_checked.push(NotChecked {
                what: "the settings that the program gives to the kubelet inside it".to_owned(),
                why: "they are on no command line and in no file".to_owned(),
            });
        }
        if settings.cgroups.is_none() {
            not_checked.push(NotChecked {
                what: "the cgroup version".to_owned(),
                why: "/sys/fs/cgroup is not in the list of mounts".to_owned(),
            });
        }
        Ok(ExaminedSettings {
            settings,
            release,
            builder,
            node: context.node_name(),
            source: format!("settings of the kubelet with pid {}", kubelet.pid),
            not_checked,
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

/// Reads the files that a kubelet's command line names.
fn settings_of(settings: &KubeletSettings, host: &HostRoot, pid: u32) -> StartSettings {
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
    StartSettings { arguments: settings.own_arguments().to_vec(), files, cgroups: cgroups(pid) }
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
    let mounts = Mount::all(&kernel_text(&path).ok()?);
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
