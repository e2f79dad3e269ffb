//! `health --bundle FILE.tar.gz`: writes everything that a colleague needs to judge this node into one archive, and
//! reads the report from such an archive for `health --from`. Writing a bundle makes no call to the runtime.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::saved::SavedReport;
use crate::clock::Wall;
use crate::diagnosis::RunFacts;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::report::HealthReport;
use crate::report::load::LARGEST_REPORT;
use crate::report::{API_VERSION, json};

/// The block size of a tar archive.
const BLOCK: usize = 512;
/// The name of the report in the archive.
const REPORT: &str = "health.json";

/// The list of the files in a bundle of `health`, `index.json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BundleIndex<'a> {
    api_version: &'static str,
    kind: &'static str,
    /// When the probing began.
    taken_at: Wall,
    /// The node's name.
    node: &'a str,
    /// The files of the archive.
    files: Vec<BundledFile<'a>>,
    /// The files that could not be collected.
    missing: Vec<MissingFile>,
    /// What a bundle never contains, for privacy.
    left_out: [&'static str; 4],
}

/// A file of the archive.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct BundledFile<'a> {
    /// The name in the archive.
    name: &'a str,
    /// What the file contains.
    about: &'static str,
    /// The size in bytes.
    bytes: usize,
    /// Whether the beginning is missing, because the file was too long.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    beginning_cut_off: bool,
}

/// A file that could not be collected.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissingFile {
    /// The file.
    what: String,
    /// Why it could not be collected.
    why: String,
}

impl MissingFile {
    /// Names a file, and why it could not be collected.
    fn new(what: &str, why: impl Into<String>) -> Self {
        Self { what: what.to_owned(), why: why.into() }
    }
}

/// Returns the archive.
pub(super) fn bytes_of(report: &HealthReport, evidence: &Evidence) -> io::Result<Vec<u8>> {
    let mut missing: Vec<MissingFile> = Vec::new();
    let mut measured = RunFacts::from(Evidence { input_files: Vec::new(), ..evidence.clone() });
    let saved = json::pretty_bytes(&SavedReport::new(report, measured.text(usize::MAX), None))?;
    let about = "the report of `plegctl health` and what it measured; show it with `plegctl health --from`";
    let mut input_files = vec![InputFile::whole(REPORT, about, saved)];
    input_files.extend(evidence.input_files.iter().cloned());
    for (name, what) in [
        ("journal.txt", "the journal"),
        ("kernel.txt", "the kernel's log"),
        ("kubelet/metrics.txt", "the kubelet's metrics"),
        ("kubelet/config.txt", "the kubelet's configuration"),
        ("stacks.txt", "who waits for whom in the runtime (stacks)"),
    ] {
        if input_files.iter().any(|input_file| input_file.name == name) {
            continue;
        }
        let skipped = report.not_checked.iter().find(|skipped| skipped.what == what);
        let why = skipped.map_or_else(|| "it could not be read".to_owned(), |skipped| skipped.why.clone());
        missing.push(MissingFile::new(name, why));
    }
    archive(&input_files, missing, &evidence.node, report.taken_at)
}

/// Returns the archive of a node that was judged from outside, with what was read of it.
pub(super) fn bytes_of_outside(report: &HealthReport, read: &[InputFile]) -> io::Result<Vec<u8>> {
    let about = "the report of `plegctl health --node`; show it with `plegctl health --from`";
    let mut input_files = vec![InputFile::whole(REPORT, about, json::pretty_bytes(report)?)];
    input_files.extend(read.iter().cloned());
    let missing =
        report.not_checked.iter().map(|skipped| MissingFile::new(&skipped.what, skipped.why.clone()));
    archive(&input_files, missing.collect(), &report.node, report.taken_at)
}

/// Returns an archive with its list.
fn archive(
    input_files: &[InputFile],
    missing: Vec<MissingFile>,
    node: &str,
    at: Wall,
) -> io::Result<Vec<u8>> {
    let index = BundleIndex {
        api_version: API_VERSION,
        kind: "HealthBundle",
        taken_at: at,
        node,
        files: input_files
            .iter()
            .map(|input_file| BundledFile {
                name: &input_file.name,
                about: input_file.about,
                bytes: input_file.bytes.len(),
                beginning_cut_off: input_file.cut,
            })
            .collect(),
        missing,
        left_out: [
            "the environment of every process",
            "verbose status, which has the environment of containers",
            "labels and annotations",
            "values whose name says token, password, secret, header, credential or private",
        ],
    };
    let index = InputFile::whole("index.json", "this list", json::pretty_bytes(&index)?);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    for input_file in [&index].into_iter().chain(input_files) {
        write_member(&mut packed, input_file, at)?;
    }
    // Two empty blocks end a tar archive.
    packed.write_all(&[0; 2 * BLOCK])?;
    packed.finish()
}

/// Writes one file of the archive in the POSIX tar format (ustar).
fn write_member(out: &mut impl Write, input_file: &InputFile, at: Wall) -> io::Result<()> {
    let seconds = at.nanos().max(0) / 1_000_000_000;
    let mut header = Vec::with_capacity(BLOCK);
    let mut field = |text: &str, length: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(length, 0);
        header.extend(bytes);
    };
    field(&input_file.name, 100);
    field("0000600", 8);
    field("0000000", 8);
    field("0000000", 8);
    field(&format!("{:011o}", input_file.bytes.len()), 12);
    field(&format!("{seconds:011o}"), 12);
    // The checksum is computed with blanks in its own field.
    field("        ", 8);
    field("0", 1);
    field("", 100);
    field("ustar\x0000", 8);
    field("", BLOCK - 265);
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    let sum = format!("{sum:06o}\0 ");
    if let Some(place) = header.get_mut(148..156) {
        place.copy_from_slice(sum.as_bytes());
    }
    out.write_all(&header)?;
    out.write_all(&input_file.bytes)?;
    let rest = input_file.bytes.len().next_multiple_of(BLOCK) - input_file.bytes.len();
    out.write_all(&vec![0; rest])
}

/// Parses the name of a bundle. Refuses a name that promises another format.
pub fn bundle_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let other_format = path.extension().filter(|end| !["gz", "tgz"].iter().any(|known| end == known));
        match other_format {
            None => Ok(path),
            Some(_) => Err("a bundle is a .tar.gz file"),
        }
    })
}

/// Whether the bytes are a gzip file.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Returns the content of `health.json` in an archive.
pub(super) fn extract_report(bytes: &[u8]) -> Result<Vec<u8>, String> {
    extract(bytes, REPORT)
}

/// Returns the content of a file in an archive.
fn extract(bytes: &[u8], wanted: &str) -> Result<Vec<u8>, String> {
    let size_limit = u64::try_from(LARGEST_REPORT).unwrap_or(u64::MAX);
    let mut archive = GzDecoder::new(bytes).take(size_limit);
    loop {
        let mut header = [0; BLOCK];
        archive.read_exact(&mut header).map_err(|why| format!("it is not a bundle: {why}"))?;
        let text = |from: usize, to: usize| {
            let field = header.get(from..to).unwrap_or_default();
            String::from_utf8_lossy(field).trim_matches(['\0', ' ']).to_owned()
        };
        let name = text(0, 100);
        if name.is_empty() {
            return Err(format!("it is a bundle without {wanted}"));
        }
        let length = u64::from_str_radix(&text(124, 136), 8).map_err(|_| "it is not a bundle".to_owned())?;
        let mut content = Vec::new();
        let mut file = archive.by_ref().take(length);
        file.read_to_end(&mut content).map_err(|why| format!("it is damaged: {why}"))?;
        if u64::try_from(content.len()).unwrap_or(u64::MAX) < length {
            return Err("it is incomplete".to_owned());
        }
        // Other tar programs write names like ./health.json.
        if name.rsplit('/').next() == Some(wanted) {
            return Ok(content);
        }
        let rest = content.len().next_multiple_of(BLOCK) - content.len();
        let rest = u64::try_from(rest).unwrap_or(0);
        io::copy(&mut archive.by_ref().take(rest), &mut io::sink())
            .map_err(|why| format!("it is damaged: {why}"))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::input_file::MAX_BYTES;
    use crate::diagnosis::judge;

    fn packed(input_files: &[InputFile]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        for input_file in input_files {
            write_member(&mut packed, input_file, Wall::from_nanos(0)).unwrap();
        }
        packed.write_all(&[0; 2 * BLOCK]).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn the_report_is_found_among_others() {
        let other = InputFile::new("journal.txt", "", "x".repeat(700));
        let report = InputFile::new(REPORT, "", "{}");
        assert_eq!(extract_report(&packed(&[other.clone(), report])).unwrap(), b"{}");
        assert_eq!(extract_report(&packed(&[other])).unwrap_err(), "it is a bundle without health.json");
    }

    /// The end of a log is kept; plegctl's own documents are never cut.
    #[test]
    fn documents_in_a_bundle_are_never_cut_but_logs_are() {
        let mut evidence = Evidence::default();
        let long = "x".repeat(MAX_BYTES + 1);
        evidence.input_files.push(InputFile::new("journal.txt", "", long.clone()));
        let mut report = judge(&evidence);
        report.keep.push(crate::report::Step::look(long));
        let packed = bytes_of(&report, &evidence).unwrap();
        let read = extract_report(&packed).unwrap();
        assert!(read.len() > MAX_BYTES, "{}", read.len());
        assert_eq!(serde_json::from_slice::<HealthReport>(&read).unwrap(), report);
        let mut archive = Vec::new();
        GzDecoder::new(packed.as_slice()).read_to_end(&mut archive).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&content(&archive, "index.json")).unwrap();
        let cut = |name: &str| {
            let files = index["files"].as_array().unwrap();
            files.iter().find(|file| file["name"] == name).unwrap()["beginningCutOff"] == true
        };
        assert!(!cut("health.json") && cut("journal.txt"), "{index:#}");
        assert_eq!(content(&archive, "journal.txt").len(), MAX_BYTES);
    }

    /// Returns one file of an archive.
    fn content(archive: &[u8], wanted: &str) -> Vec<u8> {
        let mut rest = archive;
        loop {
            let (header, after) = rest.split_at(BLOCK);
            let name = String::from_utf8_lossy(&header[..100]).trim_end_matches('\0').to_owned();
            let length = usize::from_str_radix(std::str::from_utf8(&header[124..135]).unwrap(), 8).unwrap();
            if name == wanted {
                return after[..length].to_vec();
            }
            rest = &after[length.next_multiple_of(BLOCK)..];
        }
    }

    #[test]
    fn file_that_is_no_bundle_or_is_incomplete_is_an_error() {
        let whole = packed(&[InputFile::new(REPORT, "", vec![b'x'; 5000])]);
        let mut half = whole.clone();
        half.truncate(whole.len() / 2);
        assert!(extract_report(&half).is_err());
        assert!(extract_report(b"\x1f\x8bnothing").unwrap_err().starts_with("it is not a bundle"));
    }
}
