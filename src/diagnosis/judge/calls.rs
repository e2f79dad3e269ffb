//! Fills [`VerdictFacts`] from the calls of relists, for the commands that relist as the kubelet does: `top` and `record`. They
//! ask one pod after the other and look at nothing else.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::verdict::{Relists, VerdictFacts, Weight};
use crate::clock::Mono;
use crate::cri::{Error, Outcome};
use crate::diagnosis::facts::FactKind;
use crate::diagnosis::limits;
use crate::diagnosis::report::Severity;
use crate::diagnosis::rules::estimate::{hung_calls, peak_age, times};
use crate::diagnosis::rules::judge_size;
use crate::diagnosis::silence::SilenceLimits;
use crate::kubelet::{Era, KubeletVersion, timing};
use crate::pleg::CallRecord;
use crate::pleg::relist_calls::{RelistCalls, SilentCall};

/// The kubelet's settings on which the facts depend.
#[derive(Clone, Copy, Debug)]
pub struct RelistSettings {
    /// How the kubelet relists.
    pub era: Era,
    /// The time after which it gives up a call.
    pub timeout: Duration,
    /// The age at which PLEG is unhealthy.
    pub threshold: Duration,
    /// Whether it is certain that each list of the kubelet is one message, whose size has a limit.
    pub lists_are_unary: bool,
}

impl Default for RelistSettings {
    fn default() -> Self {
        Self {
            era: KubeletVersion::CONFIRMED.era(),
            timeout: timing::REQUEST_TIMEOUT,
            threshold: timing::THRESHOLD,
            lists_are_unary: true,
        }
    }
}

/// Returns the silent calls that count as hung. A call that the last relist gave up counts until it is answered.
pub fn hung(calls: &[SilentCall]) -> impl Iterator<Item = &SilentCall> + Clone {
    let limits = SilenceLimits::default();
    calls.iter().filter(move |call| call.given_up || call.hung_before || limits.hangs(call.waited))
}

/// Returns the late or failed answers that need a person, the longest first, and whether each is new: the same limits make a
/// finding of `health`.
pub fn troubles(calls: &RelistCalls) -> Vec<(&CallRecord, bool)> {
    let is_trouble = |(call, _): &(&CallRecord, bool)| {
        let took = call.duration_seconds.duration();
        let is_slow = if call.pod.is_none() { took > limits::LIST_SLOW } else { took >= limits::STATUS_SLOW };
        is_slow || call.outcome == Outcome::Error
    };
    let mut troubles: Vec<(&CallRecord, bool)> = calls.late_answers().filter(is_trouble).collect();
    troubles.sort_by_key(|(call, is_new)| (Reverse(*is_new), Reverse(call.duration_seconds)));
    troubles
}

/// Returns how long a relist of every pod takes if that is too long, and whether it was measured in the last relist.
pub fn long_relist(calls: &RelistCalls) -> Option<(Duration, bool)> {
    calls.full_relist().filter(|(took, _)| *took >= limits::RELIST_SLOW)
}

/// Judges the size of the largest list. Nothing follows from it if the kubelet may list with streams.
pub fn list_size(calls: &RelistCalls, settings: &RelistSettings) -> Option<(Severity, FactKind)> {
    let (rpc, bytes) = calls.largest_list().filter(|_| settings.lists_are_unary)?;
    judge_size(rpc, bytes, true)
}

impl VerdictFacts {
    /// Returns what the calls of relists show. `last_list` is the start of the last relist whose list calls were answered.
    pub fn of_calls(
        calls: &RelistCalls,
        settings: &RelistSettings,
        last_list: Option<Mono>,
        now: Mono,
    ) -> Self {
        let silent = calls.silent(now);
        let hung = hung(&silent);
        let has_visited_all = calls.has_visited_all(hung.clone());
        let age = now.since(last_list.unwrap_or(calls.started()));
        // A first relist visits every pod, as after a restart of the kubelet. Its length says nothing about this kubelet.
        let is_first = !calls.has_visited_all([]) && hung.clone().next().is_none();
        let is_refused = |bytes: u64| timing::refused_message(bytes).is_some();
        let is_over = calls.largest_list().is_some_and(|(_, bytes)| is_refused(bytes));
        let error = calls.failure().and_then(|failure| failure.error.as_ref());
        let is_too_large = matches!(error, Some(Error::TooLarge { .. }));
        let relists = if (is_over || is_too_large) && !settings.lists_are_unary {
            Relists::Unknown
        } else if calls.failure().is_some() || is_over {
            Relists::Fail
        } else {
            let lists = hung.clone().filter(|call| call.pod.is_none()).map(|_| settings.timeout);
            let pods: BTreeSet<&str> =
                hung.clone().filter_map(|call| Some(call.pod.as_ref()?.uid.as_str())).collect();
            let statuses = times(settings.timeout, hung_calls(settings.era, pods.len()));
            let estimated = peak_age(lists.max().unwrap_or_default(), statuses, timing::PERIOD);
            // The relist that runs waits for its pending call until the time-out.
            let rests = hung.clone().filter(|call| !call.given_up);
            let rest = rests.map(|call| age + settings.timeout.saturating_sub(call.waited)).max();
            Relists::Succeed {
                peak_age: estimated.max(rest.unwrap_or_default()),
                may_be_higher: !has_visited_all,
            }
        };
        let late = troubles(calls).into_iter().map(|(_, is_new)| is_new);
        let late: Vec<bool> = late.chain(long_relist(calls).map(|(_, is_new)| is_new)).collect();
        let needs_person =
            hung.clone().next().is_some() || late.contains(&true) || list_size(calls, settings).is_some();
        Self {
            is_blind: error.is_some_and(Error::leaves_runtime_unknown),
            relists,
            age: (!is_first).then_some(age),
            threshold: settings.threshold,
            found: if needs_person { Weight::NeedsPerson } else { Weight::Nothing },
            // A call that was late and has not been made again may be late still.
            is_incomplete: late.contains(&false),
            ..Self::default()
        }
    }
}
