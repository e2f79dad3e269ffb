//! Checks that a new kubelet release was added everywhere: the table `RELEASES` in `crates/node/src/kubelet/release.rs`, the rules in
//! `crates`, the recordings in `tests/recordings` and the documents. `docs/adding-a-kubelet-release.md` lists what to
//! change for a new release.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use plegctl_engine::kubelet::{Era, KubeletVersion, RELEASES};
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the names of the recorded files.
fn recordings() -> Vec<String> {
    let entries = fs::read_dir(root().join("tests/recordings")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns the oldest release and `newest` with `between` between them: `1.28-1.36`.
fn range(between: &str, newest: KubeletVersion) -> String {
    format!("{}{between}{newest}", KubeletVersion::OLDEST)
}

#[test]
fn releases_follow_each_other_without_a_gap() {
    for pair in RELEASES.windows(2) {
        assert_eq!(pair[0].minor + 1, pair[1].minor);
        assert!(
            pair[0].released < pair[1].released,
            "1.{} was released before 1.{}",
            pair[1].minor,
            pair[0].minor
        );
        assert!(pair[0].era <= pair[1].era, "1.{} relists as before 1.{}", pair[1].minor, pair[0].minor);
    }
}

#[test]
fn every_release_has_recorded_verdicts_about_manifests() {
    // Each line has one manifest and the verdict of each real kubelet about it.
    let name = format!("static-pods-{}.jsonl.gz", range("-", KubeletVersion::CONFIRMED));
    let file = fs::File::open(root().join("tests/recordings").join(&name))
        .unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut judged: BTreeMap<u8, usize> = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        for version in record["kubelet"].as_object().unwrap().keys() {
            *judged.entry(KubeletVersion::parse(version).unwrap().minor()).or_default() += 1;
        }
    }
    // A release about which something is inferred has files of its own: see below.
    let recorded = RELEASES.iter().filter(|release| release.inferred.is_none());
    assert_eq!(
        judged.keys().copied().collect::<BTreeSet<_>>(),
        recorded.map(|release| release.minor).collect(),
        "{name}"
    );
    assert!(judged.values().all(|files| *files == text.lines().count()), "{judged:?}");
    let layouts = format!("pod-layouts-{}.json", range("-", KubeletVersion::CONFIRMED));
    assert!(recordings().contains(&layouts), "{layouts}");
    for release in RELEASES.iter().filter(|release| release.inferred.is_some() && release.has_uids) {
        for name in [
            format!("static-pods-1.{}.jsonl", release.minor),
            format!("static-pod-layout-1.{}.json", release.minor),
        ] {
            assert!(recordings().contains(&name), "{name}");
        }
    }
}

#[test]
fn every_era_begins_with_a_recorded_kubelet() {
    let recorded: BTreeSet<u8> = recordings()
        .iter()
        .filter_map(|name| name.strip_prefix("pleg-")?.strip_suffix(".jsonl.gz").map(str::to_owned))
        .map(|version| KubeletVersion::parse(&version).unwrap().minor())
        .collect();
    let mut first: BTreeMap<Era, u8> = BTreeMap::new();
    for release in RELEASES {
        first.entry(release.era).or_insert(release.minor);
    }
    let known: BTreeSet<u8> = RELEASES.iter().map(|release| release.minor).collect();
    assert!(recorded.is_subset(&known), "a recording is of an unknown release: {recorded:?}");
    assert!(
        first.values().all(|minor| recorded.contains(minor)),
        "eras begin at {first:?}, recorded are {recorded:?}"
    );
}

/// Returns the files that contain rules for manifests: Rust code and tables.
fn rule_files() -> Vec<PathBuf> {
    fn below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "txt") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for name in ["api-values", "static-pods", "kubelet-start"] {
        below(&root().join("crates").join(name).join("src"), &mut found);
    }
    found
}

/// Returns the minor versions in a source line, with which a rule compares the kubelet's release: in Rust code
/// `at_least(31)` or a constant of the type `u8`, in a table `since=35`, `until=36`, `printed=31` or `gate=XGate:35`.
fn compared_minors(line: &str) -> Vec<u8> {
    let after = |name: &str| line.split_once(name).map_or("", |(_, rest)| rest);
    let number = |word: &str| {
        let digits: String = word.trim().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let gate = after(" gate=").split_once(':').map_or("", |(_, minor)| minor);
    let markers = ["at_least(", ": u8 = ", " since=", " until=", " printed="];
    markers.iter().map(|marker| after(marker)).chain([gate]).filter_map(number).collect()
}

#[test]
fn rules_compare_only_with_known_releases() {
    let mut seen = BTreeSet::new();
    for path in rule_files() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            // A smaller number is no release, and `u8::MAX` stands for "never".
            for minor in compared_minors(line).into_iter().filter(|minor| *minor > 20 && *minor < u8::MAX) {
                let known = minor > KubeletVersion::OLDEST.minor() && minor <= KubeletVersion::NEWEST.minor();
                assert!(known, "{}:{}: 1.{minor} in `{}`", path.display(), number + 1, line.trim());
                seen.insert(minor);
            }
        }
    }
    assert!(
        seen.contains(&KubeletVersion::NEWEST.minor()),
        "no rule has a change of the newest release: {seen:?}"
    );
    assert!(seen.len() >= 6, "the search finds too few comparisons: {seen:?}");
}

#[test]
fn version_comparisons_are_found_in_source_lines() {
    assert_eq!(compared_minors("x X string since=35 until=36"), [35, 36]);
    assert_eq!(compared_minors("x X string since=34 gate=XGate:35"), [34, 35]);
    assert_eq!(compared_minors("x X string printed=31"), [31]);
    assert_eq!(compared_minors("    if !judge.version.at_least(31) {"), [31]);
    assert_eq!(compared_minors("const BAN: u8 = 34;"), [34]);
    assert!(compared_minors("x X string gate=XGate").is_empty());
}

#[test]
fn the_documents_name_the_newest_release() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&KubeletVersion::NEWEST.to_string()), "README.md");
    let text = fs::read_to_string(root().join("docs/adding-a-kubelet-release.md")).unwrap();
    let range = format!("Oldest and newest known: {}.", range(" to ", KubeletVersion::NEWEST));
    assert!(text.contains(&range), "docs/adding-a-kubelet-release.md does not contain: {range}");
}

#[test]
fn the_calls_of_137_that_checkpoint_or_restore_a_pod_are_not_in_the_client() {
    for file in ["proto/cri.proto", "src/cri/rpc.rs"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains("PodSandboxStatus"), "{file}");
        for call in ["CheckpointPod", "RestorePod"] {
            assert!(!text.contains(call), "{file} has {call}");
        }
    }
}
