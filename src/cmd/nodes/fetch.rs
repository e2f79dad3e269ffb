//! `plegctl nodes --fetch DIR`: downloads the captures of the worst incidents from the nodes' recorders, one after another.
//!
//! ```text
//! $ plegctl nodes --fetch evidence --token-file token
//! NODE   INCIDENT   FILE                          SIZE      ERROR
//! n7     3          n7-20261121T020000Z.plegcap   1.2 MiB   <none>
//! n9     1          <none>                        <none>    403 the recorder has another token
//! ```
//!
//! A file is complete or does not exist. A directory that others may write to is refused. Only the recorders in one namespace get
//! the token, because in another namespace anybody may run a pod with the labels of a recorder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, statat};

use super::{NodesArgs, progress_bar};
use crate::capture;
use crate::cmd::node::Node;
use crate::cmd::render::page::Page;
use crate::cmd::render::table::{self, Column};
use crate::cmd::serve::token_file::RecorderToken;
use crate::cmd::{Error, Exit};
use crate::fleet::{self, FetchedFile, FleetCaptures, WorstIncident};
use crate::kubelet::kubeconfig::Cluster;
use crate::report::bytes::bytes as size;
use crate::report::{document, is_private_directory, plural, save};

/// The number of nodes whose captures are downloaded by default.
const LIMIT: usize = 5;

/// The default time limit of one download. A recorder makes an export slowly, with pauses, so that its relists
/// are not late.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Downloads the captures into `directory`.
pub async fn run(
    arguments: &NodesArgs,
    here: &Node,
    cluster: &Arc<Cluster>,
    directory: &Path,
    token_file: &Path,
) -> Result<Exit, Error> {
    let token = RecorderToken::of_client(token_file)?;
    prepare(directory).map_err(|source| save::Error { path: directory.to_path_buf(), source })?;
    let request = arguments.request(here);
    let namespace = arguments.namespace.as_deref().unwrap_or(fleet::NAMESPACE);
    let nodes = fleet::list(cluster, &request).await?;
    let recorders = fleet::find_recorders(cluster, Some(namespace), request.timeout).await?;
    let progress = progress_bar(nodes.len(), here.global.quiet);
    let readings =
        fleet::read_incidents(cluster, nodes, recorders, arguments.recorders.since, &request, || {
            progress.step();
        })
        .await;
    progress.end();
    let (mut worst, not_known) = fleet::worst_incidents(&readings);
    let limit = match arguments.limit {
        None => LIMIT,
        Some(0) => usize::MAX,
        Some(limit) => limit,
    };
    let beyond_limit = worst.len().saturating_sub(limit);
    worst.truncate(limit);
    let progress = progress_bar(worst.len(), here.global.quiet);
    let mut files = Vec::new();
    for incident in worst {
        files.push(fetch(&incident, arguments, cluster, &token, directory, here).await);
        progress.step();
    }
    progress.end();
    let report = FleetCaptures {
        taken_at: here.clock.wall(),
        server: cluster.server.clone(),
        context: cluster.context.clone(),
        directory: directory.display().to_string(),
        files,
        beyond_limit,
        not_known,
    };
    arguments.output.print(&document(&report), here.global.style(), |out| print(&report, out))?;
    let is_known = !report.files.is_empty() || report.not_known == 0;
    let is_complete = report.files.iter().all(|file| file.file.is_some());
    Ok(if is_known && is_complete { Exit::Good } else { Exit::NoAnswer })
}

/// How many different files of one incident are kept.
const MAX_FILES: usize = 1000;

/// Returns the first name that no file has, or that a file with the same content has, because a recorder that has gone on may
/// have lost what an earlier file contains.
fn unused_name(directory: &Path, base: &str, content: &[u8]) -> Option<String> {
    let names = (1..=MAX_FILES).map(|number| match number {
        1 => format!("{base}.plegcap"),
        number => format!("{base}.{number}.plegcap"),
    });
    names.into_iter().find(|name| match std::fs::read(directory.join(name)) {
        Ok(old) => old == content,
        Err(why) => why.kind() == std::io::ErrorKind::NotFound,
    })
}

/// Downloads the capture of an incident into `directory`.
async fn fetch(
    incident: &WorstIncident,
    arguments: &NodesArgs,
    cluster: &Cluster,
    token: &RecorderToken,
    directory: &Path,
    here: &Node,
) -> FetchedFile {
    let timeout = here.global.timeout.unwrap_or(TIMEOUT);
    let anonymise = arguments.recorders.download.anonymise;
    let downloaded = incident.download(cluster, &token.header(), anonymise, timeout).await;
    let saved = downloaded.and_then(|bytes| save_capture(incident, directory, &bytes));
    let (file, bytes, error) = match saved {
        Ok((file, bytes)) => (Some(file), Some(bytes), None),
        Err(error) => (None, None, Some(error)),
    };
    FetchedFile { node: incident.node.clone(), incident: incident.number, file, bytes, error }
}

/// Saves a capture. Returns the name of its file and its size.
fn save_capture(incident: &WorstIncident, directory: &Path, bytes: &[u8]) -> Result<(String, usize), String> {
    capture::check_header(bytes).map_err(|why| format!("the answer is no capture: {why}"))?;
    let base = incident.file_name().ok_or("the node's name cannot be the name of a file")?;
    let name = unused_name(directory, &base, bytes).ok_or("there are too many files of this incident")?;
    save::write(&directory.join(&name), |file| file.write_all(bytes)).map_err(|why| why.to_string())?;
    Ok((name, bytes.len()))
}

/// Creates the directory, which only the user can read. A directory that exists must be one that others cannot change.
fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created,
    }
    let found = statat(CWD, directory, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a directory"));
    }
    if !is_private_directory(&found) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "others may write to this directory"));
    }
    Ok(())
}

type FileColumn<'a> = Column<'a, FetchedFile>;

fn print(report: &FleetCaptures, out: &mut Page<'_>) -> io::Result<()> {
    let columns = vec![
        FileColumn::new("NODE", |file| file.node.clone()),
        FileColumn::new("INCIDENT", |file| file.incident.to_string()),
        FileColumn::new("FILE", |file| file.file.clone()),
        FileColumn::new("SIZE", |file| Some(size(u64::try_from(file.bytes?).ok()?))),
        FileColumn::new("ERROR", |file| file.error.clone()),
    ];
    if !report.files.is_empty() {
        table::write(out, columns, &report.files)?;
    }
    let captures = report.files.iter().filter(|file| file.file.is_some()).count();
    let mut words = vec![format!("{} in {}", plural(captures, "capture"), report.directory)];
    if report.beyond_limit > 0 {
        words.push(format!(
            "{} more had incidents (--limit 0 fetches all)",
            plural(report.beyond_limit, "node")
        ));
    }
    if report.not_known > 0 {
        words.push(format!("the incidents of {} are not known", plural(report.not_known, "node")));
    }
    writeln!(out, "{}", words.join("; "))
}
