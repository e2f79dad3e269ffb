//! The kubelet's times and limits, each with its name in the kubelet's code.

use std::time::Duration;

/// The pause between two relists (kubelet.go: `genericPlegRelistPeriod`).
pub const PERIOD: Duration = Duration::from_secs(1);
/// The age of the last relist at which PLEG is not healthy (kubelet.go: `genericPlegRelistThreshold`).
pub const THRESHOLD: Duration = Duration::from_secs(180);
/// The pause between two relists while the event stream is in use (kubelet.go: `eventedPlegRelistPeriod`).
pub const EVENTED_PERIOD: Duration = Duration::from_secs(300);
/// The threshold while the event stream is in use (kubelet.go: `eventedPlegRelistThreshold`).
pub const EVENTED_THRESHOLD: Duration = Duration::from_secs(600);
/// The default of `runtimeRequestTimeout`.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The default of `nodeStatusUpdateFrequency`.
pub const STATUS_UPDATE_FREQUENCY: Duration = Duration::from_secs(10);
/// The default of `fileCheckFrequency`.
pub const FILE_CHECK_FREQUENCY: Duration = Duration::from_secs(20);
/// The default of `httpCheckFrequency`.
pub const HTTP_CHECK_FREQUENCY: Duration = Duration::from_secs(20);
/// The largest message that the kubelet's CRI client receives (cri-client: `maxMsgSize`).
pub const RECEIVE_LIMIT: u64 = 16 * 1024 * 1024;

/// Returns the error text of the kubelet's gRPC client if a message of this size is too large for it (grpc-go,
/// `rpc_util.go`).
pub fn refused_message(bytes: u64) -> Option<String> {
    (bytes > RECEIVE_LIMIT)
        .then(|| format!("grpc: received message larger than max ({bytes} vs. {RECEIVE_LIMIT})"))
}

/// Returns the longest pause between two updates of the node's status: the kubelet adds up to 4 % to the configured pause
/// (kubelet.go: `wait.JitterUntil(kl.syncNodeStatus, …, 0.04, …)`).
pub fn longest_status_period(frequency: Duration) -> Duration {
    frequency + frequency / 25
}
