//! Compares the table of checks in docs/static-pods.md with the program's table.
//!
//! After a change of the program's table, this command updates the document and shows the difference:
//! `PLEGCTL_BLESS=1 cargo test --test product manifests::documented_checks -- --nocapture`

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::support::difference;
use plegctl::manifests::{Check, Severity};

const START: &str = "<!-- checks: start -->\n";
const END: &str = "<!-- checks: end -->\n";

fn table() -> String {
    let mut text = String::new();
    let mut section = "";
    for check in Check::ALL {
        let row = check.row();
        if row.section != section {
            section = row.section;
            write!(text, "\n### {section}\n\n| id | severity | finds |\n|---|---|---|\n").unwrap();
        }
        let severity = match row.severity {
            Severity::Critical | Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        };
        let title = row.rule.title.replace('|', "\\|");
        writeln!(text, "| {check} | {severity} | {title} |").unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn the_table_of_checks_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/static-pods.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(START).unwrap();
    let (committed, after) = rest.split_once(END).unwrap();
    if difference::update_if_blessed(&path, &format!("{before}{START}{}{END}{after}", table())) {
        return;
    }
    let changed = difference::difference(committed, &table());
    assert!(
        committed == table(),
        "docs/static-pods.md is stale: run this test with PLEGCTL_BLESS=1\n{changed}"
    );
}
