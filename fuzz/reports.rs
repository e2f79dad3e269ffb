//! Saved reports: read back, shown, and compared.

use plegctl::diagnosis::HealthReport;
use plegctl::diagnosis::render::{Style, screen};
use plegctl::pleg::{RelistReport, diff};

use crate::fuzz;

#[test]
fn health_reports() {
    fuzz("health_reports", Vec::new(), |bytes| {
        if let Ok(report) = serde_json::from_slice::<HealthReport>(bytes) {
            for wide in [false, true] {
                let mut out = Vec::new();
                screen(&report, &mut out, Style { color: true, wide }).unwrap();
                let shown = String::from_utf8(out).unwrap();
                // Colour is ours; no other command gets to the terminal.
                assert!(!shown.replace("\x1b[", "").contains('\x1b'), "{shown:?}");
            }
        }
    });
}

#[test]
fn relist_reports() {
    fuzz("relist_reports", Vec::new(), |bytes| {
        if let Ok(report) = RelistReport::read(bytes) {
            assert!(diff(&report, &report).events.is_empty(), "a node differs from itself");
        }
    });
}
