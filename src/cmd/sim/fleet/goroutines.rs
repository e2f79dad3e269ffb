//! The goroutine dumps of simulated kubelets: recordings of a real kubelet, one without load, and two while `ListContainers`
//! of its runtime hangs.

use std::io::Read;
use std::time::Duration;

use flate2::read::GzDecoder;

/// Embeds a recording of tests/recordings/stacks.
macro_rules! recording {
    ($name:literal) => {
        include_bytes!(concat!("../../../../tests/recordings/stacks/", $name, ".kubelet.debug2.gz"))
    };
}

/// A kubelet whose relists are answered.
const IDLE: &[u8] = recording!("k2-base.t0-idle");
/// A kubelet whose last relist began this number of seconds ago.
const HUNG: [(u64, &[u8]); 2] = [(100, recording!("k2-lock.t100")), (0, recording!("k2-lock.t35"))];

/// Returns the dump of a kubelet; `hung` is the time since its last relist began, if that relist hangs.
pub fn dump(hung: Option<Duration>) -> String {
    let recorded = hung.and_then(|hung| HUNG.into_iter().find(|(since, _)| hung.as_secs() >= *since));
    let packed = recorded.map_or(IDLE, |(_, packed)| packed);
    let mut text = String::new();
    // The recordings are whole, as a test shows.
    let _ = GzDecoder::new(packed).read_to_string(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_recording_is_whole_and_the_hung_ones_wait_for_the_list() {
        let seconds = Duration::from_secs;
        let dumps = [None, Some(seconds(40)), Some(seconds(1000))].map(dump);
        for (dump, hangs) in dumps.iter().zip([false, true, true]) {
            assert!(dump.starts_with("goroutine ") && dump.ends_with('\n'), "{dump:.200}");
            assert_eq!(dump.contains(".(*remoteRuntimeService).ListContainers("), hangs);
        }
        assert_ne!(dumps[1], dumps[2]);
    }
}
