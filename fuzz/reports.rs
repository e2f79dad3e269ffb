//! Saved reports: read, written and read again, and compared.

use plegctl::diagnosis::HealthReport;
use plegctl::pleg::{RelistReport, diff};

use crate::fuzz;

#[test]
fn health_reports() {
    fuzz("health_reports", Vec::new(), |bytes| {
        if let Ok(report) = serde_json::from_slice::<HealthReport>(bytes) {
            let again = serde_json::to_vec(&report).unwrap();
            assert_eq!(serde_json::from_slice::<HealthReport>(&again).unwrap(), report);
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
