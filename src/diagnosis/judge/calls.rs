//! Fills [`VerdictFacts`] from the calls of relists, for the commands that relist as the kubelet does: `top` and `record`. They
//! ask one pod after the other and look at nothing else.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use super::verdict::{Relists, VerdictFacts, Weight};
use crate::clock::Mono;
use crate::cri::{Error, Outcome, Rpc};
use crate::diagnosis::facts::FactKind;
use crate::diagnosis::limits;
use crate::diagnosis::report::Severity;
use crate::diagnosis::rules::estimate::{hung_calls, peak_age, times};
use crate::diagnosis::rules::{is_over, judge_message, judge_size};
use crate::diagnosis::silence::SilenceLimits;
use crate::kubelet::{Era, KubeletVersion, ListLimit, timing};
use crate::pleg::CallRecord;
use crate::pleg::relist_calls::{ListSize, RelistCalls, SilentCall};

/// The kubelet's settings on which the facts depend.
#[derive(Clone, Copy, Debug)]
pub struct RelistSettings {
    /// How the kubelet relists.
    pub era: Era,
    /// The time after which it gives up a call.
    pub timeout: Duration,
    /// The age at which PLEG is unhealthy.
    pub threshold: Duration,
    /// To what the limit for the size of the kubelet's lists applies.
    pub list_limit: ListLimit,
}

impl Default for RelistSettings {
    fn default() -> Self {
        Self {
            era: KubeletVersion::CONFIRMED.era(),
            timeout: timing::REQUEST_TIMEOUT,
            threshold: timing::THRESHOLD,
            list_limit: ListLimit::List,
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

/// Returns the size of each list, or of its largest message, to which the kubelet's limit certainly applies.
pub fn limited_sizes(calls: &RelistCalls, limit: ListLimit) -> impl Iterator<Item = (Rpc, u64)> {
    calls.list_sizes().filter_map(move |list| match limit {
        ListLimit::List | ListLimit::FallenBack => Some((list.rpc, list.bytes)),
        ListLimit::Message | ListLimit::NotKnown => list.largest_message.map(|message| (list.rpc, message)),
    })
}

/// Judges the sizes of the lists, as far as it is certain to what the kubelet's limit applies.
pub fn list_size(calls: &RelistCalls, settings: &RelistSettings) -> Option<(Severity, FactKind)> {
    let certain = |list: ListSize| match (settings.list_limit, list.largest_message) {
        (ListLimit::List | ListLimit::FallenBack, _) => judge_size(list.rpc, list.bytes, true),
        // A message that is too large is too large as a part of a whole list too.
        (ListLimit::Message | ListLimit::NotKnown, Some(message)) => judge_message(list.rpc, message),
        (ListLimit::Message | ListLimit::NotKnown, None) => None,
    };
    calls.list_sizes().filter_map(certain).max_by_key(|(severity, _)| *severity)
}

/// What the sizes of the lists leave open.
#[derive(Clone, Copy, Default)]
struct OpenSizes {
    /// Whether the kubelet refuses a list if its limit is for the whole list.
    may_be_refused: bool,
    /// Whether a list has half of the limit or more, if the limit is for the whole list.
    may_be_large: bool,
}

impl OpenSizes {
    fn of(calls: &RelistCalls, settings: &RelistSettings) -> Self {
        let mut open = Self::default();
        let is_open = |list: &ListSize| match settings.list_limit {
            ListLimit::List => false,
            ListLimit::Message => list.largest_message.is_none(),
            ListLimit::FallenBack | ListLimit::NotKnown => true,
        };
        for list in calls.list_sizes().filter(is_open) {
            let message = list.largest_message.unwrap_or_default();
            // Of a list after a fallback, it is certain what happens now, and not whether the kubelet should restart (D43).
            let is_now_certain = settings.list_limit == ListLimit::FallenBack;
            open.may_be_refused |= !is_now_certain && is_over(list.bytes) && !is_over(message);
            open.may_be_large |=
                limits::reaches(list.bytes, timing::RECEIVE_LIMIT, limits::FALLBACK_SIZE_PERCENT)
                    && judge_message(list.rpc, message).is_none();
        }
        open
    }
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
        let one_is_over = calls.list_sizes().any(|list| match (settings.list_limit, list.largest_message) {
            (ListLimit::List | ListLimit::FallenBack, _) => is_over(list.bytes),
            (ListLimit::Message | ListLimit::NotKnown, message) => is_over(message.unwrap_or_default()),
        });
        let open = OpenSizes::of(calls, settings);
        let error = calls.failure().and_then(|failure| failure.error.as_ref());
        // A whole list that the runtime refuses says nothing about messages.
        let is_whole_refused = match error {
            Some(Error::TooLarge { rpc, .. }) => {
                let is_for_list = matches!(settings.list_limit, ListLimit::List | ListLimit::FallenBack);
                !is_for_list && !rpc.is_streamed_list()
            }
            _ => false,
        };
        let relists = if (open.may_be_refused || is_whole_refused) && !one_is_over {
            Relists::Unknown
        } else if calls.failure().is_some() || one_is_over {
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
            is_incomplete: late.contains(&false) || open.may_be_large,
            ..Self::default()
        }
    }
}
