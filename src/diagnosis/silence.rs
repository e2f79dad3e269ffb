//! Silence in degrees. A call that has not been answered is slow until it has been waited for long enough, and what is
//! enough depends on how long we may wait at all.
//!
//! A slow disk makes status calls of several seconds that are no hang; whoever deletes a pod on our word must not do it
//! for one of those.

use std::time::Duration;

use super::evidence::Evidence;
use super::report::Confidence;
use super::{join, limits};

/// From which silence on a call is called hung, in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Likely hung.
    pub likely: Duration,
    /// Hung.
    pub certain: Duration,
}

impl Default for Scale {
    fn default() -> Self {
        Self { likely: limits::SILENT_LIKELY, certain: limits::SILENT_CERTAIN }
    }
}

impl Scale {
    /// For a run that waits for a call no longer than `patience`: a short one has to do with less, and never gets
    /// beyond *likely*.
    pub fn within(patience: Duration) -> Self {
        let likely = (patience / 2).clamp(limits::SILENT_AT_LEAST, limits::SILENT_LIKELY);
        Self { likely, certain: limits::SILENT_CERTAIN }
    }

    /// Whether a silence of this length is a hang rather than slowness.
    pub fn hangs(&self, waited: Duration) -> bool {
        waited >= self.likely
    }

    /// How sure a silence of this length makes us, by itself.
    pub fn confidence(&self, waited: Duration) -> Confidence {
        match waited {
            _ if waited >= self.certain => Confidence::Certain,
            _ if waited >= self.likely => Confidence::Likely,
            _ => Confidence::Possible,
        }
    }
}

impl Evidence {
    /// How sure we are that the call about `id` hangs: by its silence, or by that and a second piece of evidence.
    pub fn sure_of(&self, id: &str, waited: Duration) -> Confidence {
        let by_silence = self.runtime.silence.confidence(waited);
        if by_silence == Confidence::Likely && self.second_evidence(id).is_some() {
            return Confidence::Certain;
        }
        by_silence
    }

    /// What, beside its silence, shows that something about `id` stands still: a frozen cgroup, a task that waits
    /// uninterruptibly in every look, a stopped shim.
    pub fn second_evidence(&self, id: &str) -> Option<String> {
        if let Some(said) = self.dump_blames(id) {
            return Some(said);
        }
        let host = self.node()?;
        let holders = join::holders(self, id);
        if let Some(freeze) = holders.frozen {
            return Some(format!("its cgroup {} is frozen", freeze.path));
        }
        if let Some(shim) = holders.shim.filter(|shim| shim.is_stopped()) {
            return Some(format!("its shim {} is stopped (state {})", shim.label(), shim.state));
        }
        // One look proves nothing: every write to a disk waits like this for a moment.
        host.second.as_ref()?;
        holders.blocked.first().map(|(process, task)| {
            format!(
                "{}, task {} waits in the kernel in every look ({})",
                process.label(),
                task.tid,
                task.wchan
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_becomes_likely_and_then_certain() {
        let scale = Scale::default();
        let after = |seconds| scale.confidence(Duration::from_millis(seconds));
        assert_eq!(after(4_999), Confidence::Possible);
        assert_eq!(after(5_000), Confidence::Likely);
        assert_eq!(after(9_999), Confidence::Likely);
        assert_eq!(after(10_000), Confidence::Certain);
    }

    #[test]
    fn a_short_run_says_likely_sooner_and_certain_no_sooner() {
        let npd = Scale::within(Duration::from_secs(4));
        assert!(npd.hangs(Duration::from_secs(2)) && !npd.hangs(Duration::from_millis(1999)));
        assert_eq!(npd.confidence(Duration::from_millis(3900)), Confidence::Likely);
        let tiny = Scale::within(Duration::from_millis(500));
        assert!(!tiny.hangs(Duration::from_millis(500)), "half a second is no hang, whoever is in a hurry");
        assert_eq!(Scale::within(Duration::from_secs(60)), Scale::default());
    }
}
