//! [`KubeletLists`]: with which calls a kubelet lists, and what shows it.
//!
//! With the feature gate `CRIListStreaming`, a kubelet lists with `StreamPodSandboxes` and `StreamContainers`, and its limit
//! of 16 MiB applies to each message instead of the whole list. If the runtime answers one of these calls with
//! `Unimplemented`, the kubelet lists with the unary calls until it restarts.

use super::{KubeletVersion, Sourced};

/// The name of the feature gate.
pub const GATE: &str = "CRIListStreaming";

/// The first release with the gate, which is off by default.
const FIRST_WITH_GATE: u8 = 36;
/// The first release in which the gate may be on by default. This is planned (KEP-5825), and no such release exists yet.
const FIRST_BY_DEFAULT: u8 = 38;

/// The calls with which a kubelet lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListCalls {
    /// `ListPodSandbox` and `ListContainers`: the whole list is one message.
    Unary,
    /// `StreamPodSandboxes` and `StreamContainers`: the list arrives in messages of some thousand entries.
    Stream,
}

/// What shows how a kubelet lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListCallsSource {
    /// The gauge `kubelet_cri_streaming_enabled{service="runtime"}`.
    Gauge,
    /// The kubelet logged that the runtime does not implement a call.
    Log,
    /// The feature gate, as it is set in this place: a flag, a file or configz.
    Gate(String),
    /// The release: it has no such gate, or the gate is off unless it is set.
    Release,
    /// Nothing: the release may have the gate on, and neither the gate nor the gauge was found.
    NotKnown,
}

/// What was found about how a kubelet lists.
#[derive(Clone, Copy, Debug)]
pub struct ListSigns<'a> {
    /// The kubelet's release.
    pub release: KubeletVersion,
    /// The gate, if it is set.
    pub gate: Option<&'a Sourced<bool>>,
    /// The gauge, if the kubelet's metrics have it.
    pub gauge: Option<bool>,
    /// Whether the kubelet logged that it falls back to the unary calls.
    pub logged_fallback: bool,
}

/// How a kubelet lists, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletLists {
    /// The calls. If nothing shows them, those of every release until now.
    pub calls: ListCalls,
    /// What shows it.
    pub source: ListCallsSource,
}

impl KubeletLists {
    /// Concludes how a kubelet lists. The gauge comes first, because only it shows what the kubelet does now.
    pub fn of(signs: ListSigns<'_>) -> Self {
        let lists = |calls, source| Self { calls, source };
        if !signs.release.at_least(FIRST_WITH_GATE) {
            return lists(ListCalls::Unary, ListCallsSource::Release);
        }
        if let Some(streams) = signs.gauge {
            let calls = if streams { ListCalls::Stream } else { ListCalls::Unary };
            return lists(calls, ListCallsSource::Gauge);
        }
        if signs.logged_fallback {
            return lists(ListCalls::Unary, ListCallsSource::Log);
        }
        match signs.gate {
            Some(gate) => {
                let calls = if gate.value { ListCalls::Stream } else { ListCalls::Unary };
                lists(calls, ListCallsSource::Gate(gate.source.clone()))
            }
            None if signs.release.at_least(FIRST_BY_DEFAULT) => {
                lists(ListCalls::Unary, ListCallsSource::NotKnown)
            }
            None => lists(ListCalls::Unary, ListCallsSource::Release),
        }
    }

    /// Whether it is certain that the kubelet's lists are one message each.
    pub fn are_unary(&self) -> bool {
        self.calls == ListCalls::Unary && self.source != ListCallsSource::NotKnown
    }

    /// Whether it is certain that the kubelet's lists are streams. A gate that is on does not show this: the kubelet may have
    /// fallen back to the unary calls.
    pub fn are_streams(&self) -> bool {
        self.calls == ListCalls::Stream && self.source == ListCallsSource::Gauge
    }

    /// Returns why plegctl assumes these calls, in words.
    pub fn why(&self) -> String {
        match (&self.source, self.calls) {
            (ListCallsSource::Gauge, ListCalls::Stream) => "kubelet_cri_streaming_enabled is 1".to_owned(),
            (ListCallsSource::Gauge, ListCalls::Unary) => {
                "kubelet_cri_streaming_enabled is 0: the kubelet fell back to unary lists".to_owned()
            }
            (ListCallsSource::Log, _) => "the kubelet logged that it fell back to unary lists".to_owned(),
            (ListCallsSource::Gate(place), calls) => {
                let value = if calls == ListCalls::Stream { "on" } else { "off" };
                format!("{GATE} is {value} in {place}")
            }
            (ListCallsSource::Release, _) => format!("{GATE} is off unless it is set"),
            (ListCallsSource::NotKnown, _) => format!(
                "neither {GATE} nor the gauge was found; a kubelet from 1.{FIRST_BY_DEFAULT} on may stream \
                 (planned, not confirmed)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(minor: u8, gate: Option<bool>, gauge: Option<bool>, logged_fallback: bool) -> KubeletLists {
        let release = KubeletVersion::parse(&format!("1.{minor}")).unwrap();
        let gate = gate.map(|value| Sourced::new(value, "the kubelet's configz"));
        KubeletLists::of(ListSigns { release, gate: gate.as_ref(), gauge, logged_fallback })
    }

    #[test]
    fn without_any_sign_only_a_release_up_to_37_is_known_to_list_unary() {
        for minor in [28, 35, 36, 37, 38, 39] {
            let lists = lists(minor, None, None, false);
            assert_eq!(lists.calls, ListCalls::Unary, "1.{minor}");
            assert_eq!(lists.are_unary(), minor <= 37, "1.{minor}");
            assert_eq!(lists.why().contains("may stream"), minor >= 38, "1.{minor}: {}", lists.why());
        }
    }

    #[test]
    fn the_gauge_counts_more_than_the_log_and_the_log_more_than_the_gate() {
        let all = [
            (lists(37, Some(true), Some(false), false), ListCalls::Unary, ListCallsSource::Gauge),
            (lists(38, Some(true), Some(true), true), ListCalls::Stream, ListCallsSource::Gauge),
            (lists(38, Some(true), None, true), ListCalls::Unary, ListCallsSource::Log),
        ];
        for (lists, calls, source) in all {
            assert_eq!((lists.calls, &lists.source), (calls, &source));
        }
    }

    #[test]
    fn a_gate_that_is_on_does_not_make_it_certain_that_the_kubelet_streams_and_one_that_is_off_does() {
        let on = lists(37, Some(true), None, false);
        assert_eq!((on.calls, on.are_streams(), on.are_unary()), (ListCalls::Stream, false, false));
        assert_eq!(on.why(), "CRIListStreaming is on in the kubelet's configz");
        assert!(lists(38, Some(false), None, false).are_unary());
        assert!(lists(38, Some(true), Some(true), false).are_streams());
    }

    #[test]
    fn a_release_without_the_gate_lists_unary_whatever_is_set() {
        assert_eq!(lists(35, Some(true), None, false).source, ListCallsSource::Release);
    }
}
