//! Fuzzes saved reports, which are read, written and read again, compared, and printed in each output format.

use std::fs;

use plegctl_engine::diagnosis::HealthReport;
use plegctl_engine::pleg::{RelistReport, diff};

use super::{assert_shows, fuzz};
use crate::support::socket::TempDir;

/// The commands that print each kind of report.
const OF_HEALTH: [&[&str]; 5] = [
    &["health", "-o", "table", "--from"],
    &["health", "-o", "wide", "--from"],
    &["health", "-o", "json", "--from"],
    &["health", "-o", "prometheus", "--from"],
    &["health", "--npd", "--from"],
];

#[test]
fn health_reports() {
    let folder = TempDir::new();
    let path = folder.path().join("health.json");
    let mut forms = OF_HEALTH.iter().cycle();
    fuzz("health_reports", Vec::new(), |bytes| {
        if let Ok(report) = serde_json::from_slice::<HealthReport>(bytes) {
            let again = serde_json::to_vec(&report).unwrap();
            assert_eq!(serde_json::from_slice::<HealthReport>(&again).unwrap(), report);
            fs::write(&path, bytes).unwrap();
            assert_shows(forms.next().unwrap(), &[path.to_str().unwrap()]);
        }
    });
}

#[test]
fn relist_reports() {
    let folder = TempDir::new();
    let (path, sound) = (folder.path().join("relist.json"), folder.path().join("sound.json"));
    fs::write(&sound, include_bytes!("corpus/relist_reports/quiet.json")).unwrap();
    let mut forms = ["table", "json", "jsonl"].iter().cycle();
    fuzz("relist_reports", Vec::new(), |bytes| {
        if let Ok(report) = RelistReport::read(bytes) {
            assert!(diff(&report, &report).events.is_empty(), "a node differs from itself");
            fs::write(&path, bytes).unwrap();
            let files = [sound.to_str().unwrap(), path.to_str().unwrap()];
            assert_shows(&["diff", "--force", "-o", forms.next().unwrap()], &files);
        }
    });
}
