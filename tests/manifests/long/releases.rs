//! Compares verdict and UID of each file with those of nine kubelet releases.
//!
//! `static-pods-1.28-1.36` has 161 files, half of them about changes between releases; `static-pods-odd` has 718
//! mutated files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use plegctl_engine::manifests::{FileVerdict, Kubelet, KubeletVersion, UidUnknown, inspect_bytes};

use crate::support::static_pods::{content, mutated_files, nine_releases};

/// The name, the namespace and the UID of a loaded pod; `None` if the file was rejected. plegctl cannot compute the UID
/// of a manifest that sets a time field.
type LoadedPod = Option<(String, String, Result<String, UidUnknown>)>;

/// plegctl's result for a file at the path that the recorded kubelets read.
fn ours(file: &str, bytes: &[u8], minor: u8) -> LoadedPod {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    let path = Path::new("/etc/kubernetes/manifests").join(file);
    let report = inspect_bytes(&path, bytes, &kubelet);
    let pod = report.pod.filter(|_| report.verdict == FileVerdict::Loaded)?;
    Some((pod.name, pod.namespace, report.uid.unwrap()))
}

/// The numbers of equal and different results of one release.
#[derive(Default)]
struct AgreementCount {
    files: usize,
    verdicts: usize,
    loaded: usize,
    uids: usize,
    with_times: usize,
}

/// The comparison of plegctl's results with those of the kubelets.
#[derive(Default)]
struct Comparison {
    by_release: BTreeMap<u8, AgreementCount>,
    different: String,
}

impl Comparison {
    fn add(&mut self, file: &str, bytes: &[u8], minor: u8, theirs: &LoadedPod) {
        let ours = ours(file, bytes, minor);
        let tally = self.by_release.entry(minor).or_default();
        tally.files += 1;
        let name = |pod: &LoadedPod| pod.as_ref().map(|(name, namespace, _)| format!("{namespace}/{name}"));
        if name(&ours) == name(theirs) {
            tally.verdicts += 1;
        } else {
            let (ours, theirs) = (name(&ours), name(theirs));
            writeln!(self.different, "1.{minor} {file}: {ours:?}, the kubelet: {theirs:?}").unwrap();
        }
        let Some((_, _, uid)) = theirs else { return };
        tally.loaded += 1;
        let our_uid = ours.map(|(_, _, uid)| uid);
        if our_uid.as_ref() == Some(uid) {
            tally.uids += 1;
        } else if our_uid == Some(Err(UidUnknown::Time)) {
            tally.with_times += 1;
        } else {
            writeln!(self.different, "1.{minor} {file}: uid {our_uid:?}, the kubelet: {uid:?}").unwrap();
        }
    }

    /// Formats the numbers by release.
    fn table(&self) -> String {
        let mut text = "release   verdicts    uids\n".to_owned();
        for (minor, tally) in &self.by_release {
            let AgreementCount { files, verdicts, loaded, uids, with_times } = tally;
            let uids = format!("{uids}/{loaded}");
            writeln!(text, "1.{minor}      {verdicts}/{files}    {uids} and {with_times} with times")
                .unwrap();
        }
        text
    }
}

fn minor(version: &str) -> u8 {
    version.trim_start_matches("1.").parse().unwrap()
}

#[test]
fn every_verdict_and_uid_equals_that_of_nine_kubelet_releases() {
    let mut comparison = Comparison::default();
    for record in nine_releases() {
        let bytes = content(&record);
        for (version, kubelet) in record["kubelet"].as_object().unwrap() {
            // The kubelet does not read a hidden file.
            if kubelet["ok"].is_null() {
                continue;
            }
            let text = |key: &str| kubelet[key].as_str().unwrap().to_owned();
            let theirs = (kubelet["ok"] == true).then(|| (text("name"), text("namespace"), Ok(text("uid"))));
            comparison.add(record["file"].as_str().unwrap(), &bytes, minor(version), &theirs);
        }
    }
    println!("{}", comparison.table());
    assert!(comparison.different.is_empty(), "{}\n{}", comparison.table(), comparison.different);
    assert!(comparison.by_release.values().all(|tally| tally.with_times == 0));
}

#[test]
fn every_verdict_and_uid_of_a_mutated_file_equals_that_of_nine_kubelet_releases() {
    let mut comparison = Comparison::default();
    for (file, bytes, kubelets) in mutated_files() {
        for (version, kubelet) in kubelets.as_object().unwrap() {
            let text = |index: usize| kubelet[index].as_str().unwrap().to_owned();
            let theirs = kubelet.is_array().then(|| (text(0), text(1), Ok(text(2))));
            comparison.add(&file, &bytes, minor(version), &theirs);
        }
    }
    println!("{}", comparison.table());
    assert!(comparison.different.is_empty(), "{}\n{}", comparison.table(), comparison.different);
}

#[test]
fn both_uids_that_kubelets_1_37_logged_are_computed() {
    for line in include_str!("../../recordings/static-pods-1.37.jsonl").lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| record[key].as_str().unwrap();
        let pod = &record["kubelet"]["1.37"];
        let kubelet = Kubelet::new(KubeletVersion::parse("1.37").unwrap(), text("node"));
        let report = inspect_bytes(Path::new(text("source")), &content(&record), &kubelet);
        assert_eq!(report.uid, Some(Ok(pod["uid"].as_str().unwrap().to_owned())), "{line}");
        assert_eq!(report.pod.unwrap().name, pod["name"].as_str().unwrap(), "{line}");
        let unknown = Kubelet::new(KubeletVersion::parse("1.38").unwrap(), text("node"));
        let report = inspect_bytes(Path::new(text("source")), &content(&record), &unknown);
        assert_eq!(report.uid, Some(Err(UidUnknown::Release(unknown.release))), "{line}");
    }
}

/// Extracts the field paths from a validation error.
fn paths(reason: &str) -> BTreeSet<String> {
    const KINDS: &[&str] = &[
        ": Required value",
        ": Invalid value",
        ": Unsupported value",
        ": Duplicate value",
        ": Forbidden",
        ": Too long",
        ": Too many",
        ": Not found",
    ];
    let start = |end: usize| reason[..end].rfind([' ', '[']).map_or(0, |blank| blank + 1);
    // A path may contain brackets.
    let whole = |end: usize| {
        let mut from = start(end);
        while from > 0 && reason[from..end].matches(']').count() > reason[from..end].matches('[').count() {
            from = start(from - 1);
        }
        reason[from..end].to_owned()
    };
    let ends = KINDS.iter().flat_map(|kind| reason.match_indices(kind)).map(|(end, _)| end);
    ends.map(whole).filter(|path| path.starts_with(['s', 'm'])).collect()
}

/// Splits a validation error into its parts, each of which begins with one of these field paths.
fn parts<'a>(reason: &'a str, paths: &BTreeSet<String>) -> Vec<&'a str> {
    let reason = reason.strip_suffix(']').unwrap();
    let begin = |path: &String| {
        let path = format!("{path}: ");
        reason.match_indices(&path).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let starts: BTreeSet<usize> = paths.iter().flat_map(begin).collect();
    let ends = starts.iter().skip(1).copied().chain([reason.len()]);
    starts.iter().zip(ends).map(|(start, end)| reason[*start..end].trim_end()).collect()
}

#[test]
fn nine_of_ten_rejections_have_the_kubelets_field_paths_and_then_only_its_words() {
    let (mut same, mut all, mut different, mut other_words) = (0, 0, String::new(), String::new());
    for record in nine_releases() {
        let bytes = content(&record);
        let file = record["file"].as_str().unwrap();
        for (version, kubelet) in record["kubelet"].as_object().unwrap() {
            let Some(theirs) = kubelet["error"].as_str().filter(|error| error.starts_with("invalid pod: ["))
            else {
                continue;
            };
            let kubelet = Kubelet::new(KubeletVersion::nearest(minor(version)), "node1");
            let report = inspect_bytes(Path::new("/p.yaml"), &bytes, &kubelet);
            let ours = paths(report.kubelet_reason.as_deref().unwrap_or_default());
            all += 1;
            if ours == paths(theirs) {
                same += 1;
                let reason = report.kubelet_reason.unwrap();
                // Some recorded messages are cut off.
                let is_whole = theirs.ends_with(']');
                for part in
                    parts(&reason, &ours).into_iter().filter(|part| is_whole && !theirs.contains(part))
                {
                    writeln!(other_words, "{version} {file}: {part}, the kubelet: {theirs}").unwrap();
                }
            } else {
                writeln!(different, "{version} {file}: {ours:?}, the kubelet: {:?}", paths(theirs)).unwrap();
            }
        }
    }
    println!("{same} of {all} refusals with the same field paths\n{different}");
    assert!(other_words.is_empty(), "{other_words}");
    assert!(all > 400 && same * 10 >= all * 9, "{same} of {all}\n{different}");
}
