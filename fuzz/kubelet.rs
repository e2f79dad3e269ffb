//! What a kubelet says of itself: its metrics, its configuration file, and the settings of crictl.

use plegctl::kubelet::Metrics;
use plegctl::kubelet::scalars;

use super::fuzz;

#[test]
fn kubelet_metrics() {
    fuzz("kubelet_metrics", Vec::new(), |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = Metrics::parse(&text);
    });
}

#[test]
fn kubelet_config() {
    fuzz("kubelet_config", Vec::new(), |bytes| {
        if let Ok(found) = scalars(bytes) {
            // Nothing is made up: a setting takes a byte at the least.
            assert!(found.len() <= bytes.len());
        }
    });
}
