//! [`KubeletLists`]: with which calls a kubelet lists, and what shows it.
//!
//! With the feature gate `CRIListStreaming`, a kubelet lists with `StreamPodSandboxes` and `StreamContainers`, and its limit
//! of 16 MiB applies to each message instead of the whole list. If the runtime answers one of these calls with
//! `Unimplemented`, the kubelet lists with the unary calls until it restarts.

use serde::{Deserialize, Serialize};

use super::{KubeletVersion, Sourced};
use plegctl_base::report::Rename;

/// The name of the feature gate.
pub const GATE: &str = "CRIListStreaming";

/// The first release with the gate, which is off by default.
const FIRST_WITH_GATE: u8 = 36;
/// The first release in which the gate may be on by default. This is planned (KEP-5825), and no such release exists yet.
const FIRST_BY_DEFAULT: u8 = 38;

/// The calls with which a kubelet lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListCalls {
    /// `ListPodSandbox` and `ListContainers`: the whole list is one message.
    Unary,
    /// `StreamPodSandboxes` and `StreamContainers`: the list arrives in messages of some thousand entries.
    Stream,
}

/// What shows how a kubelet lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListCallsSource {
    /// The gauge `kubelet_cri_streaming_enabled{service="runtime"}`.
    Gauge,
    /// The kubelet logged that the runtime does not implement a call.
    Log,
    /// The feature gate, as it is set there: in a flag, a file or configz, itself or with all gates of its stage.
    Gate(String),
    /// The release: it has no such gate, or the gate is off unless it is set.
    Release,
    /// Nothing: the release may have the gate on, and neither the gate nor the gauge was found.
    NotKnown,
    /// The user chose the calls.
    Option,
    /// The recorder made these calls.
    Capture,
    /// The runtime does not implement a streaming call, which is what makes a kubelet fall back too.
    Refused,
}

/// To what the limit of 16 MiB applies that a kubelet sets for what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLimit {
    /// The whole list.
    List,
    /// The whole list until the kubelet restarts: it fell back to unary lists.
    FallenBack,
    /// Each message of a list.
    Message,
    /// One of both: how the kubelet lists is not certain.
    NotKnown,
}

/// The settings that decide whether the gate is on, as far as they are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct ListGates {
    /// The gate itself.
    pub own: Option<Sourced<bool>>,
    /// `AllAlpha`, which sets every alpha gate that is not set itself.
    pub all_alpha: Option<Sourced<bool>>,
    /// `AllBeta`, which does the same to beta gates.
    pub all_beta: Option<Sourced<bool>>,
}

impl From<Sourced<bool>> for ListGates {
    fn from(own: Sourced<bool>) -> Self {
        Self { own: Some(own), ..Self::default() }
    }
}

impl ListGates {
    /// Returns these settings; where one is missing, the one of `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            own: self.own.or(below.own),
            all_alpha: self.all_alpha.or(below.all_alpha),
            all_beta: self.all_beta.or(below.all_beta),
        }
    }

    /// Returns whether the gate is on in this release, and what sets it; `None` if nothing does, or if that depends on a stage
    /// of the gate that is not known.
    fn of_release(&self, release: KubeletVersion) -> Option<(bool, String)> {
        if let Some(own) = &self.own {
            return Some((own.value, format!("in {}", own.source)));
        }
        let by = |group: &str, setting: &Sourced<bool>| {
            (setting.value, format!("by {group} in {}", setting.source))
        };
        let alpha = self.all_alpha.as_ref();
        if !release.at_least(FIRST_BY_DEFAULT) {
            return Some(by("AllAlpha", alpha?));
        }
        // Whether the gate is alpha or beta there is not confirmed.
        let (alpha, beta) = (alpha?, self.all_beta.as_ref()?);
        (alpha.value == beta.value).then(|| by("AllAlpha and AllBeta", alpha))
    }
}

/// What was found about how a kubelet lists.
#[derive(Clone, Copy, Debug)]
pub struct ListSigns<'a> {
    /// The kubelet's release.
    pub release: KubeletVersion,
    /// The settings of the gate.
    pub gates: &'a ListGates,
    /// The gauge, if the kubelet's metrics have it.
    pub gauge: Option<bool>,
    /// Whether the kubelet logged that it falls back to the unary calls.
    pub logged_fallback: bool,
}

/// How a kubelet lists, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
        match signs.gates.of_release(signs.release) {
            Some((is_on, place)) => {
                let calls = if is_on { ListCalls::Stream } else { ListCalls::Unary };
                lists(calls, ListCallsSource::Gate(place))
            }
            None if signs.release.at_least(FIRST_BY_DEFAULT) => {
                lists(ListCalls::Unary, ListCallsSource::NotKnown)
            }
            None => lists(ListCalls::Unary, ListCallsSource::Release),
        }
    }

    /// Returns to what the kubelet's limit certainly applies. A gate that is on does not show that it applies to a message: the
    /// kubelet may have fallen back to the unary calls.
    pub fn limit(&self) -> ListLimit {
        match (self.calls, &self.source) {
            (ListCalls::Stream, ListCallsSource::Gauge) => ListLimit::Message,
            (ListCalls::Stream, _) | (_, ListCallsSource::NotKnown) => ListLimit::NotKnown,
            (ListCalls::Unary, ListCallsSource::Gauge | ListCallsSource::Log) => ListLimit::FallenBack,
            (ListCalls::Unary, _) => ListLimit::List,
        }
    }

    /// Whether the gauge could show something else than the release and the gate.
    pub fn may_differ(&self) -> bool {
        self.source == ListCallsSource::NotKnown || self.calls == ListCalls::Stream
    }

    /// Returns why plegctl assumes these calls, in words.
    pub fn reason(&self) -> String {
        match (&self.source, self.calls) {
            (ListCallsSource::Gauge, ListCalls::Stream) => "kubelet_cri_streaming_enabled is 1".to_owned(),
            (ListCallsSource::Gauge, ListCalls::Unary) => {
                "kubelet_cri_streaming_enabled is 0: the kubelet fell back to unary lists".to_owned()
            }
            (ListCallsSource::Log, _) => "the kubelet logged that it fell back to unary lists".to_owned(),
            (ListCallsSource::Gate(place), calls) => {
                let value = if calls == ListCalls::Stream { "on" } else { "off" };
                format!("{GATE} is {value} {place}")
            }
            (ListCallsSource::Release, _) => format!("{GATE} is off unless it is set"),
            (ListCallsSource::NotKnown, _) => format!(
                "neither {GATE} nor the gauge was found; a kubelet from 1.{FIRST_BY_DEFAULT} on may stream \
                 (planned, not confirmed)"
            ),
            (ListCallsSource::Option, _) => "--list-calls".to_owned(),
            (ListCallsSource::Capture, _) => "the recorder made these calls".to_owned(),
            (ListCallsSource::Refused, _) => "the runtime does not implement the streaming ones".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(minor: u8, gate: Option<bool>, gauge: Option<bool>, logged_fallback: bool) -> KubeletLists {
        let release = KubeletVersion::parse(&format!("1.{minor}")).unwrap();
        let own = gate.map(|value| Sourced::new(value, "the kubelet's configz"));
        let gates = ListGates { own, ..ListGates::default() };
        KubeletLists::of(ListSigns { release, gates: &gates, gauge, logged_fallback })
    }

    #[test]
    fn without_any_sign_only_a_release_up_to_37_is_known_to_list_unary() {
        for minor in [28, 35, 36, 37, 38, 39] {
            let lists = lists(minor, None, None, false);
            assert_eq!(lists.calls, ListCalls::Unary, "1.{minor}");
            assert_eq!(lists.limit() == ListLimit::List, minor <= 37, "1.{minor}");
            assert_eq!(lists.may_differ(), minor >= 38, "1.{minor}");
            assert_eq!(lists.reason().contains("may stream"), minor >= 38, "1.{minor}: {}", lists.reason());
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
        assert_eq!((on.calls, on.limit(), on.may_differ()), (ListCalls::Stream, ListLimit::NotKnown, true));
        assert_eq!(on.reason(), "CRIListStreaming is on in the kubelet's configz");
        assert_eq!(lists(38, Some(false), None, false).limit(), ListLimit::List);
        assert_eq!(lists(38, Some(true), Some(true), false).limit(), ListLimit::Message);
    }

    #[test]
    fn all_gates_of_a_stage_set_this_one_where_its_stage_is_known() {
        let of = |minor, own: Option<bool>, alpha: Option<bool>, beta: Option<bool>| {
            let sourced = |value: bool| Sourced::new(value, "the kubelet's command line");
            let gates = ListGates {
                own: own.map(sourced),
                all_alpha: alpha.map(sourced),
                all_beta: beta.map(sourced),
            };
            let release = KubeletVersion::parse(&format!("1.{minor}")).unwrap();
            KubeletLists::of(ListSigns { release, gates: &gates, gauge: None, logged_fallback: false })
        };
        for minor in [36, 37] {
            let lists = of(minor, None, Some(true), Some(false));
            assert_eq!(lists.calls, ListCalls::Stream, "1.{minor}");
            assert_eq!(lists.reason(), "CRIListStreaming is on by AllAlpha in the kubelet's command line");
            assert_eq!(
                of(minor, Some(false), Some(true), None).calls,
                ListCalls::Unary,
                "its own setting wins"
            );
            assert_eq!(of(minor, None, None, Some(true)).source, ListCallsSource::Release, "it is not beta");
        }
        assert_eq!(of(35, None, Some(true), None).source, ListCallsSource::Release);
        assert_eq!(of(38, None, Some(true), None).source, ListCallsSource::NotKnown, "it may be beta");
        assert_eq!(of(38, None, None, Some(false)).source, ListCallsSource::NotKnown, "it may be alpha");
        assert_eq!(of(38, None, Some(false), Some(false)).limit(), ListLimit::List);
        assert_eq!(of(38, None, Some(true), Some(true)).calls, ListCalls::Stream);
    }

    #[test]
    fn a_fallback_shows_in_the_gauge_and_in_the_log() {
        assert_eq!(lists(38, None, Some(false), false).limit(), ListLimit::FallenBack);
        assert_eq!(lists(37, Some(true), None, true).limit(), ListLimit::FallenBack);
        assert_eq!(lists(37, Some(false), None, false).limit(), ListLimit::List);
    }

    #[test]
    fn a_release_without_the_gate_lists_unary_whatever_is_set() {
        assert_eq!(lists(35, Some(true), None, false).source, ListCallsSource::Release);
    }
}
