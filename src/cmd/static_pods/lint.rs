//! `plegctl static-pods lint`: checks each manifest of a directory as this node's kubelet would, and compares the
//! result with the pods that really run.
//!
//! ```text
//! $ plegctl static-pods lint
//! /etc/kubernetes/manifests/etcd.yaml: loaded as kube-system/etcd-n1
//! warning[SP053] line 9, column 7: `comand` is not known in spec.containers[0]: the kubelet drops it without
//! a word
//! 9 |       comand: [etcd]
//! |       ^
//! fix: did you mean `command`?
//! ```
//!
//! The command opens regular files only and changes nothing. It applies the rules of the kubelet, not those of the
//! API server.

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::KUBEADM_MANIFESTS;
use super::github;
use super::lint_text as text;
use crate::cmd::args::GlobalArgs;
use crate::cmd::catalogue::no_such_check;
use crate::cmd::event_loop::block_on;
use crate::cmd::flags::fail_on::FailOn;
use crate::cmd::node::Node;
use crate::cmd::render::sarif;
use crate::cmd::session::{ONE_SHOT_TIMEOUT, Session};
use crate::cmd::term::output::Output;
use crate::cmd::term::waiting::WaitingLine;
use crate::cmd::{Error, Exit, complete, named_file};
use crate::kubelet::KubeletProcess;
use crate::manifests::checks::runtime::{self, RuntimeComparison};
use crate::manifests::checks::{self, CheckContext};
use crate::manifests::lint::LintReport;
use crate::manifests::podconfig::{ApiPods, WantedPod, mirror_findings};
use crate::manifests::running::list_static_pods;
use crate::manifests::{
    self, Check, Kubelet, KubeletVersion, LintFinding, PathKind, SIZE_LIMIT, SourceReport, UidUnknown,
    upgrade,
};
use crate::report::{NotChecked, document};
use crate::sim::StaticManifest;

/// The largest list of the API server's pods that is read. The list of ten thousand pods has about sixty megabytes.
const MAX_POD_LIST_SIZE: usize = 256 << 20;

/// Show what the kubelet does with each manifest, what is wrong with it, and whether the runtime runs the same.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// A directory, a file, or `-` for stdin [default: the running kubelet's staticPodPath, else
    /// /etc/kubernetes/manifests]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Name of the node, which every static pod gets as a suffix [default: this node's]
    #[arg(long, alias = "node", value_name = "NAME")]
    node_name: Option<String>,

    /// Release of the kubelet whose rules count, such as 1.34 [default: this node's kubelet's, if its metrics report it,
    /// else the newest confirmed]
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    kubelet_version: Option<KubeletVersion>,

    /// The directory as the kubelet sees it, if it is not PATH; the pods' UIDs depend on it
    #[arg(long = "as", value_name = "DIR")]
    kubelet_path: Option<PathBuf>,

    /// Also show which pods an upgrade to this release restarts and refuses, such as 1.37
    #[arg(long, value_name = "VERSION", value_parser = KubeletVersion::parse)]
    upgrade_to: Option<KubeletVersion>,

    /// What makes the exit status 1
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    fail_on: FailOn,

    /// Skip these checks, such as SP053,SP007; may be given more than once
    #[arg(long, value_name = "ID", value_parser = check_id, value_delimiter = ',', add = ArgValueCompleter::new(complete::checks))]
    ignore: Vec<Check>,

    /// The API server's pods of the node, as `kubectl get pods -A --field-selector spec.nodeName=N -o json` prints
    /// them, to look for each pod's mirror; `-` for stdin
    #[arg(long, value_name = "FILE")]
    api_pods: Option<PathBuf>,

    /// Do not compare with what the runtime runs
    #[arg(long)]
    no_cri: bool,

    /// Write this format to a file too, such as sarif=lint.sarif; may be given more than once
    #[arg(long, value_name = "FORMAT=FILE", value_parser = |text: &str| Output::of_file(text, &FORMATS))]
    output_file: Vec<(Output, PathBuf)>,

    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = Output::one_of(&FORMATS))]
    output: Output,
}

/// The output formats for findings, on stdout or in a file.
const FORMATS: [Output; 6] =
    [Output::Table, Output::Json, Output::Yaml, Output::Jsonl, Output::Sarif, Output::Github];

/// Parses the id of a check. An unknown id is an error, because `--ignore` would have no effect.
fn check_id(text: &str) -> Result<Check, String> {
    let ids = Check::ALL.iter().map(|check| check.id());
    Check::named(text).ok_or_else(|| no_such_check(text, ids, "SP053"))
}

/// Runs the command.
pub fn run(arguments: &LintArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let node = &Node::named_by(global);
    let kubelet = arguments.kubelet(node);
    let simulated = node.simulated_manifests()?;
    let configured = match &simulated {
        Some((directory, _)) => Some(directory.to_path_buf()),
        None => configured_path(node),
    };
    let mut targets = arguments.targets(node, configured.as_deref());
    if let Some((directory, manifests)) = simulated {
        // A simulated node has its own files at this path, and this machine may have others.
        for target in targets.iter_mut().filter(|target| target.on_node || target.path == directory) {
            directory.clone_into(&mut target.path);
            target.manifest_dir = arguments.kubelet_path.clone().or_else(|| Some(directory.to_path_buf()));
            target.on_node = true;
            target.simulated = Some(manifests.clone());
        }
    }
    if let Some(missing) = targets.iter().find(|target| target.is_probably_mistyped(configured.as_deref())) {
        return Err(Error::NoManifests(missing.path.display().to_string()));
    }
    let stdin = if targets.iter().any(Target::is_stdin) { read_stdin()? } else { Vec::new() };
    let mut sources: Vec<SourceReport> =
        targets.iter().map(|target| target.check(&kubelet, &stdin, configured.as_ref(), node)).collect();
    let upgrade = arguments.upgrade_to.map(|to| {
        let later = kubelet.with_release(node.note_release(to));
        let after: Vec<SourceReport> = targets.iter().map(|target| target.inspect(&later, &stdin)).collect();
        upgrade::compare(&mut sources, &after, &kubelet, &later)
    });
    let (mut compared, mut not_checked) = arguments.compare(node, &targets, &sources, &kubelet);
    let releases = [Some(kubelet.release), arguments.upgrade_to].into_iter().flatten();
    not_checked.extend(releases.filter(|release| !release.has_known_uids()).map(|release| {
        let what = format!("the UIDs that kubelet {release} gives these pods, and which pods it restarts");
        NotChecked::new(what, UidUnknown::Release(release))
    }));
    let mut is_incomplete = sources.iter().any(is_unreadable);
    match arguments.api_pods.as_deref().map(|path| api_pods(path, &kubelet.node_name)) {
        Some(Ok(pods)) => {
            compared.findings.extend(mirror_findings(&sources, &pods, node.clock.wall()));
        }
        Some(Err(why)) => {
            node.remark(&format!("not compared with the API server's pods: {why}"));
            not_checked.push(NotChecked::new("mirror pods", why));
            is_incomplete = true;
        }
        None => {}
    }
    let ignored: HashSet<Check> = arguments.ignore.iter().copied().collect();
    let report = LintReport::new(&kubelet, sources, compared, upgrade, not_checked, &ignored);
    let (files, style) = (&arguments.output_file, global.style());
    arguments.output.print_and_save(files, style, |format, out, page| match format {
        Output::Sarif => sarif::write(&report, out),
        Output::Github => github::write(&report, out),
        _ if format.write_document(&document(&report), out)? => Ok(()),
        _ => text::table(&report, &mut page(out)),
    })?;
    Ok(if is_incomplete { Exit::NoAnswer } else { arguments.fail_on.exit(report.worst()) })
}

/// Whether plegctl has no right to read the source. The kubelet runs as root and can read it.
fn is_unreadable(source: &SourceReport) -> bool {
    let unreadable = |finding: &LintFinding| finding.id == Check::Unreadable;
    let file = if source.kind == PathKind::File { source.files.first() } else { None };
    source.findings.iter().any(unreadable) || file.is_some_and(|file| file.findings.iter().any(unreadable))
}

/// Returns the directory of manifests from the running kubelet's configuration.
fn configured_path(node: &Node) -> Option<PathBuf> {
    let found = node.kubelet()?.setting("pod-manifest-path", "staticPodPath");
    match found {
        Ok(setting) => {
            let setting = setting?;
            node.note(1, &format!("the kubelet reads {} ({})", setting.value, setting.source));
            Some(PathBuf::from(setting.value))
        }
        Err(why) => {
            node.note(1, &format!("the kubelet's staticPodPath is not known: {why}"));
            None
        }
    }
}

/// Reads the API server's pods of the node.
fn api_pods(path: &Path, node: &str) -> Result<Vec<Arc<WantedPod>>, String> {
    let read = named_file::read(path, MAX_POD_LIST_SIZE, None);
    let (name, text) = read.map_err(|why| why.to_string())?;
    ApiPods::parse(&text, node).map(|list| list.pods).map_err(|why| format!("{name}: {why}"))
}

/// A path to check.
struct Target {
    path: PathBuf,
    /// Whether this is the node's own directory, and not a copy.
    on_node: bool,
    /// The directory as the kubelet names it, if it is not the path itself.
    manifest_dir: Option<PathBuf>,
    /// The manifests of a simulated node, if this is its directory.
    simulated: Option<Vec<StaticManifest>>,
}

impl Target {
    /// Whether the manifest comes from stdin.
    fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Whether the user named a path that does not exist and that no kubelet is known to read. If the kubelet's own
    /// directory is missing, that is a finding.
    fn is_probably_mistyped(&self, configured: Option<&Path>) -> bool {
        let is_of_kubelet = self.on_node
            || self.path == Path::new(KUBEADM_MANIFESTS)
            || configured.is_some_and(|configured| self.path == configured);
        let is_missing =
            || self.path.symlink_metadata().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
        !self.is_stdin() && !is_of_kubelet && is_missing()
    }

    /// Reads the manifests and applies the kubelet's rules to them.
    fn inspect(&self, kubelet: &Kubelet, stdin: &[u8]) -> SourceReport {
        let kubelet = Kubelet { manifest_dir: self.manifest_dir.clone(), ..kubelet.clone() };
        let findings = Vec::new();
        let report = |kind, files| SourceReport { path: self.path.clone(), kind, files, findings };
        if let Some(manifests) = &self.simulated {
            let inspect =
                |file: &StaticManifest| manifests::inspect_bytes(&file.path, file.text.as_bytes(), &kubelet);
            report(PathKind::Directory, manifests.iter().map(inspect).collect())
        } else if self.is_stdin() {
            report(PathKind::File, vec![manifests::inspect_bytes(&self.path, stdin, &kubelet)])
        } else {
            manifests::inspect(&self.path, &kubelet)
        }
    }

    /// Inspects the manifests and adds the checks that need the node and the kubelet's settings.
    fn check(
        &self,
        kubelet: &Kubelet,
        stdin: &[u8],
        configured: Option<&PathBuf>,
        node: &Node,
    ) -> SourceReport {
        let mut source = self.inspect(kubelet, stdin);
        // The files and the kubelet of this machine say nothing about a simulated node.
        let is_here = self.simulated.is_none();
        let configured = configured.filter(|_| is_here && !self.is_stdin()).map(|path| node.host.path(path));
        let check_context = CheckContext {
            kubelet,
            configured: configured.as_deref(),
            on_node: self.on_node && is_here,
            host: Some(&node.host).filter(|_| is_here),
            kubelet_settings: node
                .kubelet()
                .filter(|_| self.on_node && is_here && node.is_live())
                .map(KubeletProcess::settings),
        };
        checks::run(&mut source, &check_context);
        source
    }
}

/// Reads stdin up to the size limit of a manifest.
fn read_stdin() -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(SIZE_LIMIT).read_to_end(&mut bytes);
    read.map_err(|source| Error::Read { name: "stdin".to_owned(), source, if_missing: None })?;
    Ok(bytes)
}

/// Creates a note if pods run from these files, but no known kubelet release gives them their UIDs.
fn unknown_uids_note(compared: &RuntimeComparison, kubelet: &Kubelet) -> Option<NotChecked> {
    if compared.uids_reproduced || compared.made.is_empty() || !kubelet.release.has_known_uids() {
        return None;
    }
    let why = format!(
        "no running pod has a UID that a kubelet {} to {} on node {} would give these files at this \
         path, or the files set metadata.uid (see --as, --node-name)",
        KubeletVersion::OLDEST,
        KubeletVersion::NEWEST_WITH_UIDS,
        kubelet.node_name
    );
    Some(NotChecked::new("whether the running pods were made from the current files", why))
}

/// Whether two paths are the same file or directory.
fn is_same_file(left: &Path, right: &Path) -> bool {
    // `Path` ignores a slash at the end.
    left == right
        || matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
}

impl LintArgs {
    /// Returns the kubelet whose rules apply.
    fn kubelet(&self, node: &Node) -> Kubelet {
        let release = node.note_release(node.assumed_release(self.kubelet_version));
        let node_name = self.node_name.clone().or_else(|| node.name());
        // The kubelet writes its node name in lower case.
        let node_name = node_name.unwrap_or_else(|| "localhost".to_owned()).to_lowercase();
        Kubelet::new(release, node_name)
    }

    /// Returns the files and directories to check.
    fn targets(&self, node: &Node, configured: Option<&Path>) -> Vec<Target> {
        let kubelets_path = configured.unwrap_or(Path::new(KUBEADM_MANIFESTS));
        let node_path = node.host.path(kubelets_path);
        if self.paths.is_empty() {
            return vec![self.target(&node_path, kubelets_path, true, node)];
        }
        let mut seen = HashSet::new();
        let paths = self.paths.iter().filter(|path| seen.insert(*path));
        let target = |path: &PathBuf| self.target(path, kubelets_path, is_same_file(path, &node_path), node);
        paths.map(target).collect()
    }

    /// Creates a target. `kubelets_path` is the path in the kubelet's configuration; `on_node` says that `path` is
    /// this path below the host root.
    fn target(&self, path: &Path, kubelets_path: &Path, on_node: bool, node: &Node) -> Target {
        let stdin = path.as_os_str() == "-";
        let seen = match &self.kubelet_path {
            Some(directory) => Some(directory.clone()),
            None if on_node => Some(kubelets_path.to_path_buf()),
            None => node.host.on_node(path),
        };
        // The kubelet knows a single file by the path of the file's directory.
        let whole = self.kubelet_path.is_some() || path.is_dir();
        let manifest_dir =
            seen.and_then(|seen| if whole { Some(seen) } else { Some(seen.parent()?.to_path_buf()) });
        Target {
            path: path.to_path_buf(),
            on_node,
            manifest_dir: manifest_dir.filter(|_| !stdin),
            simulated: None,
        }
    }

    /// Compares the manifests with the pods that the runtime runs. Returns a note if there is no comparison.
    fn compare(
        &self,
        node: &Rc<Node>,
        targets: &[Target],
        sources: &[SourceReport],
        kubelet: &Kubelet,
    ) -> (RuntimeComparison, Vec<NotChecked>) {
        let skipped =
            |why: String| (RuntimeComparison::default(), vec![NotChecked::new("what the runtime runs", why)]);
        if self.no_cri {
            return skipped("--no-cri".to_owned());
        }
        // On a laptop, every manifest of a repository would be missing in the runtime.
        if !targets.iter().any(|target| target.on_node) && !node.names_a_runtime() {
            return skipped("the path is not this node's own, and no runtime was named".to_owned());
        }
        // Pods without a file are reported only if the whole directory is checked.
        let whole = self.kubelet_path.is_some() || targets.iter().any(|target| target.on_node);
        match self.list_and_compare(node, sources, kubelet, whole) {
            Ok(compared) => {
                let not_checked = unknown_uids_note(&compared, kubelet);
                (compared, not_checked.into_iter().collect())
            }
            Err(why) => {
                node.remark(&format!("not compared with the runtime: {why}"));
                skipped(why.to_string())
            }
        }
    }

    fn list_and_compare(
        &self,
        node: &Rc<Node>,
        sources: &[SourceReport],
        kubelet: &Kubelet,
        whole: bool,
    ) -> Result<RuntimeComparison, Error> {
        let session = Session::of_node(node)?;
        let line = WaitingLine::begin(node);
        let running = block_on(line.during(line.part("the runtime's lists", async {
            let client = session.client(ONE_SHOT_TIMEOUT);
            list_static_pods(&client).await.map_err(Error::from)
        })))??;
        let input = runtime::CompareInput {
            kubelet,
            version_given: self.kubelet_version.is_some(),
            whole_directory: whole
                && sources
                    .iter()
                    .any(|source| matches!(source.kind, PathKind::Directory | PathKind::Missing)),
            now: node.clock.wall(),
        };
        Ok(runtime::compare(sources, &running, &input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_check_is_refused_with_the_most_similar_id() {
        assert_eq!(check_id("sp053"), Ok(Check::UnknownField));
        assert!(check_id("SP5").unwrap_err().contains("did you mean"));
        assert!(check_id("whatever").unwrap_err().contains("SP053"));
    }

    #[test]
    fn an_output_file_has_a_format_and_a_name() {
        assert_eq!(Output::of_file("sarif=a=b", &FORMATS), Ok((Output::Sarif, PathBuf::from("a=b"))));
        assert!(Output::of_file("a.json", &FORMATS).is_err());
        assert!(Output::of_file("json=", &FORMATS).is_err());
        assert!(Output::of_file("xml=a", &FORMATS).unwrap_err().contains("sarif"));
    }
}
