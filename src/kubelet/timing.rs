//! The kubelet's own times and limits, each with the place in its code that it comes from.

use std::time::Duration;

/// The pause between two relists (kubelet.go: `genericPlegRelistPeriod`).
pub const PERIOD: Duration = Duration::from_secs(1);
/// Age of the last relist from which on PLEG is not healthy (kubelet.go: `genericPlegRelistThreshold`).
pub const THRESHOLD: Duration = Duration::from_secs(180);
/// The pause between two relists while the event stream is in use (kubelet.go: `eventedPlegRelistPeriod`).
pub const EVENTED_PERIOD: Duration = Duration::from_secs(300);
/// The threshold while the event stream is in use (kubelet.go: `eventedPlegRelistThreshold`).
pub const EVENTED_THRESHOLD: Duration = Duration::from_secs(600);
/// `runtimeRequestTimeout` of a kubelet that is told nothing else.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// `fileCheckFrequency` of a kubelet that is told nothing else.
pub const FILE_CHECK_FREQUENCY: Duration = Duration::from_secs(20);
/// `httpCheckFrequency` of a kubelet that is told nothing else.
pub const HTTP_CHECK_FREQUENCY: Duration = Duration::from_secs(20);
/// What its client takes of one message (cri-client: `maxMsgSize`).
pub const RECEIVE_LIMIT: u64 = 16 * 1024 * 1024;
