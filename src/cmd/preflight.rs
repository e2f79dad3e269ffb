//! `plegctl preflight`: checks whether a kubelet starts on this node and keeps running, for the present release or
//! for an upgrade.
//!
//! ```text
//! $ plegctl preflight --upgrade-to 1.36
//! error[KP002]: --pod-infra-container-image was removed in 1.35, so kubelet 1.36 does not start
//!     the kubelet: failed to parse kubelet flag: unknown flag: --pod-infra-container-image
//!     fix: remove the flag
//! ```
//!
//! The command reads the settings of this node's kubelet, or the files that the user names. It starts no kubelet and
//! changes nothing. Of the runtime it makes two calls, Version and `RuntimeConfig`, and of an image service on another
//! socket one, Version.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::args::GlobalArgs;
use super::catalogue::no_such_check;
use super::event_loop::block_on;
use super::flags::fail_on::FailOn;
use super::node::Node;
use super::render::{preflight as text, sarif};
use super::session::{ONE_SHOT_TIMEOUT, Session};
use super::term::output::Output;
use super::{Error, Exit, complete, named_file};
use crate::cri::{self, CgroupDriver, Endpoint, Runtime};
use crate::diagnosis::commands::last_kubelet_command;
use crate::host::{self, shell_words};
use crate::kubelet::{KubeletSettings, KubeletVersion, stopped_settings};
use crate::manifests::UidUnknown;
use crate::manifests::preflight::{
    self, Builder, CallRefusal, ConfigFile, LARGEST_CONFIG, PreflightReport, RuntimeAnswer, StartCheck,
    StartFinding, StartSettings, TargetKubelet,
};
use crate::manifests::upgrade::UpgradedFile;
use crate::report::{NotChecked, document};

/// Check whether a kubelet starts with these settings.
#[derive(Debug, Args)]
#[command(mut_arg("config", |config| config.help_heading(None).help(
    "The kubelet's configuration file to check, without a node [default: the running kubelet's]"
)))]
pub struct PreflightArgs {
    /// The release that is to start, such as 1.37 [default: the release that runs here]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    upgrade_to: Option<KubeletVersion>,

    /// The release that runs now, such as 1.34 [default: this node's kubelet's, if its metrics or its program show it]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// The kubelet's command line to check, without a node, such as "--max-pods=250 --v=2"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    flags: Option<String>,

    /// What makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    fail_on: FailOn,

    /// Skip these checks, such as KP013,KP003; may be given more than once
    #[arg(long, value_name = "ID", value_parser = start_check, value_delimiter = ',', add = ArgValueCompleter::new(complete::start_checks))]
    ignore: Vec<StartCheck>,

    /// Write this format to a file too, such as sarif=preflight.sarif; may be given more than once
    #[arg(long, value_name = "FORMAT=FILE", value_parser = |text: &str| Output::of_file(text, &FORMATS))]
    output_file: Vec<(Output, PathBuf)>,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&FORMATS))]
    output: Output,
}

/// The time limit for reading the journal.
const JOURNAL_TIME_LIMIT: Duration = Duration::from_secs(2);

/// The time limit for reading the kubelet's settings. Nobody waits for them in an incident, and a starved node needs long.
const SETTINGS_TIME_LIMIT: Duration = Duration::from_secs(10);

const FORMATS: [Output; 5] = [Output::Table, Output::Json, Output::Yaml, Output::Jsonl, Output::Sarif];

/// Parses the id of a check. An unknown id is an error, because `--ignore` would have no effect.
fn start_check(text: &str) -> Result<StartCheck, String> {
    let ids = StartCheck::ALL.iter().map(|check| check.id());
    StartCheck::named(text).ok_or_else(|| no_such_check(text, ids, "KP011"))
}

/// Runs the command. `config` is the kubelet's configuration file, which takes the place of crictl's settings file.
pub fn run(arguments: &PreflightArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let node = &Node::named_by(global);
    let config = global.config.as_deref();
    let examined = if config.is_some() || arguments.flags.is_some() {
        arguments.read_files(config)?
    } else {
        arguments.read_node(node)?
    };
    let release = arguments.upgrade_to.or(examined.release).ok_or(Error::NoRelease)?;
    let kubelet = TargetKubelet { release, builder: examined.builder };
    let judged = preflight::settings_findings(&examined.settings, kubelet);
    let mut not_checked = examined.not_checked;
    not_checked.extend(preflight::unlisted_gates_and_flags(release));
    let mut findings = judged.findings;
    let mut pods = Vec::new();
    if let (Some(from), Some(to), Some(directory)) =
        (examined.release, arguments.upgrade_to, examined.static_pods)
    {
        match compare_static_pods(node, directory, examined.node.clone(), from, to) {
            Ok((files, of_pods)) => {
                pods = files;
                findings.extend(of_pods);
                let unknown = [from, to].into_iter().find(|release| !release.has_known_uids());
                let what = "which static pods the upgrade restarts";
                not_checked
                    .extend(unknown.map(|release| NotChecked::new(what, UidUnknown::Release(release))));
            }
            Err(why) => not_checked.push(NotChecked::new("the static pods", why)),
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
    let (files, style) = (&arguments.output_file, global.style());
    arguments.output.print_and_save(files, style, |format, out, page| match format {
        Output::Sarif => sarif::write_preflight(&report, out),
        _ if format.write_document(&document(&report), out)? => Ok(()),
        _ => text::table(&report, &mut page(out)),
    })?;
    Ok(arguments.fail_on.exit(report.worst()))
}

/// Compares what both releases do with the manifests in `directory`.
fn compare_static_pods(
    node: &Node,
    directory: PathBuf,
    node_name: Option<String>,
    from: KubeletVersion,
    to: KubeletVersion,
) -> Result<(Vec<UpgradedFile>, Vec<StartFinding>), String> {
    if let Some(unknown) = [from, to].into_iter().find(|release| release.known() != *release) {
        return Err(format!("the rules of kubelet {unknown} for static pods are not known"));
    }
    let host_path = node.host.path(&directory);
    let node_name = node_name.unwrap_or_else(|| "localhost".to_owned());
    let compare = move || preflight::compare_static_pods(&host_path, &directory, &node_name, from, to);
    node.in_time("the directory of manifests", compare)
        .ok_or_else(|| "reading them takes too long".to_owned())
}

/// The settings to judge, from this node or from the user's files.
struct ExaminedSettings {
    settings: StartSettings,
    release: Option<KubeletVersion>,
    builder: Builder,
    node: Option<String>,
    /// The directory of manifests, as the kubelet sees it.
    static_pods: Option<PathBuf>,
    /// Where the settings come from, for the report.
    source: String,
    not_checked: Vec<NotChecked>,
}

impl PreflightArgs {
    /// Reads the files that the user named.
    fn read_files(&self, config: Option<&Path>) -> Result<ExaminedSettings, Error> {
        let file = config.map(|path| {
            let if_missing =
                Some("the kubelet's flag --config names it, usually /var/lib/kubelet/config.yaml");
            let (_, content) = named_file::read(path, LARGEST_CONFIG, if_missing)?;
            let path = Arc::from(path.display().to_string());
            Ok::<_, Error>(ConfigFile { path, content: Ok(content), is_drop_in: false })
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
            not_checked: vec![NotChecked::new("the node", "only files were given")],
        })
    }

    /// Reads the settings of this node's kubelet, also if it does not run.
    fn read_node(&self, node: &Rc<Node>) -> Result<ExaminedSettings, Error> {
        let running = node.kubelet();
        let host = node.host.clone();
        let (own, source) = match running {
            Some(kubelet) => {
                (kubelet.settings().clone(), format!("settings of the kubelet with pid {}", kubelet.pid))
            }
            None => stopped_kubelet(node)?,
        };
        let release = match self.kubelet_version {
            Some(release) => Some(release),
            None if running.is_some() => block_on(node.kubelet_release())?,
            None => {
                let (own, host) = (own.clone(), host.clone());
                let read = move || own.program_release(&host);
                node.within(SETTINGS_TIME_LIMIT, "the kubelet's program", read).flatten()
            }
        };
        let pid = running.map(|kubelet| kubelet.pid);
        let now = node.clock.wall().nanos() / 1_000_000_000;
        let read = {
            let own = own.clone();
            let proc = host::proc();
            move || {
                (
                    preflight::read_node_settings(&own, &host, &proc, pid, now),
                    preflight::builder_of_node(&host),
                )
            }
        };
        let (mut settings, builder) =
            node.within(SETTINGS_TIME_LIMIT, "the kubelet's configuration", read)
                .ok_or_else(|| Error::Start(io::Error::from(io::ErrorKind::TimedOut)))?;
        if let Some(found) = &mut settings.node
            && let Some((socket, true)) = &found.runtime_socket
            && let Some(path) = preflight::socket_below(socket, &node.host)
        {
            found.runtime = Some(first_calls(node, path, socket)?);
        }
        if let Some(found) = &mut settings.node
            && let Some((socket, true)) = &found.image_socket
            && let Some(path) = preflight::socket_below(socket, &node.host)
        {
            found.image_refusal = version(node, path, socket)?.err().map(refusal);
        }
        let builder = if preflight::is_of_openshift(&settings) { Builder::OpenShift } else { builder };
        Ok(ExaminedSettings {
            release,
            builder,
            node: node.name(),
            static_pods: own
                .setting("pod-manifest-path", "staticPodPath")
                .ok()
                .flatten()
                .map(|setting| PathBuf::from(setting.value)),
            source,
            not_checked: unread_facts(&own, &settings),
            settings,
        })
    }
}

/// Returns the settings of a kubelet that does not run, and where they are: in kubeadm's files, in a systemd unit, or in the
/// journal, which keeps the kubelet's last command line.
fn stopped_kubelet(node: &Node) -> Result<(KubeletSettings, String), Error> {
    let host = node.host.clone();
    let of_files = {
        let host = host.clone();
        node.within(SETTINGS_TIME_LIMIT, "the kubelet's unit", move || stopped_settings(&host)).flatten()
    };
    if let Some((settings, place)) = of_files {
        return Ok((settings, format!("settings in {place}; no kubelet runs")));
    }
    let command = block_on(last_kubelet_command(node.host.as_path(), JOURNAL_TIME_LIMIT))?;
    let command = command.map_err(|why| node.remark(&why.to_string())).ok().flatten();
    let arguments = command.ok_or(Error::NoKubelet)?.into_iter().collect();
    let read = move || KubeletSettings::read(arguments, None, &host);
    let settings =
        node.within(SETTINGS_TIME_LIMIT, "the kubelet's configuration", read).ok_or(Error::NoKubelet)?;
    Ok((settings, "the last command line in the journal; no kubelet runs".to_owned()))
}

/// Calls Version on the socket of the image service, to learn whether anybody listens there.
fn version(node: &Rc<Node>, path: PathBuf, socket: &str) -> Result<Result<cri::Version, cri::Error>, Error> {
    let endpoint = Endpoint::Unix { path, name: format!("unix://{socket}") };
    let session = Session::at(node, endpoint)?;
    block_on(async { session.client(ONE_SHOT_TIMEOUT).version().await.result })
}

/// Makes the first calls of a kubelet to its runtime: Version, and `RuntimeConfig` if that is answered.
fn first_calls(node: &Rc<Node>, path: PathBuf, socket: &str) -> Result<RuntimeAnswer, Error> {
    let endpoint = Endpoint::Unix { path, name: format!("unix://{socket}") };
    let session = Session::at(node, endpoint)?;
    block_on(async {
        let client = session.client(ONE_SHOT_TIMEOUT);
        let version = client.version().await.result.map(|_| ()).map_err(refusal);
        let cgroup_driver = match &version {
            Ok(()) => Some(client.cgroup_driver().await.result),
            Err(_) => None,
        };
        let word = |driver: Option<CgroupDriver>| driver.map(CgroupDriver::as_str);
        let cgroup_driver = cgroup_driver.map(|answer| answer.map(word).map_err(refusal));
        RuntimeAnswer { version, cgroup_driver }
    })
}

/// Returns what a failed call shows about a kubelet's call.
fn refusal(why: cri::Error) -> CallRefusal {
    match why {
        cri::Error::NoSuchSocket { .. } | cri::Error::Refused { .. } => CallRefusal::NobodyListens,
        cri::Error::Unimplemented { message, .. } => CallRefusal::Unimplemented(message),
        cri::Error::WrongProtocol { .. } => CallRefusal::WrongProtocol,
        why => CallRefusal::Unjudged(why.to_string()),
    }
}

/// Lists the facts about the node that could not be read.
fn unread_facts(own: &KubeletSettings, settings: &StartSettings) -> Vec<NotChecked> {
    let mut skipped = Vec::new();
    let mut skip = |what: &str, why: &str| skipped.push(NotChecked::new(what, why));
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
    for (path, why) in node.map_or(&[][..], |node| node.subordinate_ids.unread.as_slice()) {
        skip(&format!("the subordinate ids in {path}"), &why.to_string());
    }
    let resources = node.map(|node| &node.resources);
    if resources.is_none_or(|resources| resources.listeners.is_none()) {
        skip("the ports and the lock file", "the kubelet's process table is not visible from here");
    }
    if resources.is_none_or(|resources| resources.disks.is_empty()) {
        skip("the disks", "the file system of the root directory is not known");
    }
    match node.map(|node| (&node.runtime_socket, &node.runtime)) {
        // A finding says that there is no socket.
        Some((Some((_, false)), _)) => {}
        Some((_, Some(runtime))) => {
            if let Some(why) = preflight::unjudged_answer(runtime) {
                skip("whether the runtime serves CRI v1", why);
            }
        }
        _ => skip("whether the runtime serves CRI v1", "its socket is not known"),
    }
    skipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Rpc;

    #[test]
    fn only_an_error_that_shows_what_the_kubelet_would_get_is_judged() {
        let endpoint = || "unix:///r.sock".to_owned();
        let words = |why: cri::Error| match refusal(why) {
            CallRefusal::Unjudged(why) => why,
            judged => format!("{judged:?}"),
        };
        assert_eq!(words(cri::Error::NoSuchSocket { endpoint: endpoint() }), "NobodyListens");
        assert_eq!(words(cri::Error::Refused { endpoint: endpoint() }), "NobodyListens");
        let message = "unknown service runtime.v1.RuntimeService".to_owned();
        let unimplemented = cri::Error::Unimplemented { rpc: Rpc::Version, message };
        assert_eq!(words(unimplemented), "Unimplemented(\"unknown service runtime.v1.RuntimeService\")");
        let silent = cri::Error::Silent { rpc: Rpc::Version, waited: Duration::from_secs(10) };
        assert_eq!(words(silent), "Version did not answer within 10s");
        let denied = cri::Error::PermissionDenied { endpoint: endpoint() };
        assert_eq!(words(denied), "cannot reach the runtime at `unix:///r.sock`: permission denied");
    }
}
