//! Formats a watch as lines of text.

use std::fmt::Write as _;
use std::time::Duration;

use super::words::{elapsed, or_none, padded, short_id, took, width};
use crate::clock::Wall;
use crate::cri::Outcome;
use crate::diagnosis::HealthReport;
use crate::pleg::compare::MAX_TRACKED;
use crate::pleg::stream::{
    CompareSummary, Divergence, Event, EventSource, EventSubject, Health, Quantiles, Relist, Silence,
    SlowCall, Stream, StreamState, StreamSummary, WatchSummary,
};
use crate::pleg::{CallRecord, OpenCall, PlegState, PodRef};
use crate::report::bytes::bytes;
use crate::report::escape::escaped;

/// Width of the longest bar of the histogram.
const BAR: u64 = 40;

/// Formats the time of day, in UTC, with milliseconds.
pub fn time_of_day(time: Wall) -> String {
    time.to_string().get(11..23).unwrap_or_default().to_owned()
}

/// Formats `namespace/name`, as far as known.
pub fn pod(pod: &PodRef) -> String {
    if pod.name.is_empty() {
        or_none(&pod.uid)
    } else {
        format!("{}/{}", or_none(&pod.namespace), or_none(&pod.name))
    }
}

/// The column widths of event lines: those of the longest values so far, within limits.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pod: usize,
    subject: usize,
}

/// The widest column; a longer value shifts the rest of its line.
const WIDEST: usize = 44;

/// The length of `non-existent → running`, the longest transition.
const TRANSITION: usize = 22;

impl Default for Columns {
    fn default() -> Self {
        // A pod of kube-system with a node name, and the short id of a sandbox.
        Self { pod: 28, subject: 20 }
    }
}

fn widened(column: &mut usize, text: &str) -> String {
    let width = width(text);
    if width <= WIDEST {
        *column = width.max(*column);
    }
    padded(text, *column)
}

/// Formats one event.
pub fn event(event: &Event, columns: &mut Columns) -> String {
    let subject = match event.subject {
        EventSubject::Pod => "pod".to_owned(),
        EventSubject::Sandbox => format!("sandbox {}", short_id(event.id.as_deref().unwrap_or_default())),
        EventSubject::Container => match &event.name {
            Some(name) if !name.is_empty() => escaped(name).into_owned(),
            _ => short_id(event.id.as_deref().unwrap_or_default()),
        },
    };
    let transition = match (event.from, event.to) {
        (Some(from), Some(to)) => format!("{} → {}", from.as_str(), to.as_str()),
        (None, Some(to)) => format!("→ {}", to.as_str()),
        (_, None) => String::new(),
    };
    let mut line = format!(
        "{}  {}  {}  {transition:<TRANSITION$}  {}",
        time_of_day(event.time),
        widened(&mut columns.pod, &pod(&event.pod)),
        widened(&mut columns.subject, &subject),
        event.event_type.as_str()
    );
    line.push_str(&death(event));
    // Writing to a String cannot fail.
    if event.source == EventSource::Evented {
        let latency = event.latency_seconds.map(|latency| format!(" after {}", took(latency.duration())));
        let _ = write!(line, "  [stream{}]", latency.unwrap_or_default());
    }
    if !event.delivered {
        line.push_str("  (computed, not delivered)");
    }
    line
}

/// Formats ` (137 OOMKilled)` for a container that died.
fn death(event: &Event) -> String {
    if event.to == Some(PlegState::Running) {
        return String::new();
    }
    let code = event.exit_code.map(|code| code.to_string());
    let reason = event
        .reason
        .as_deref()
        .filter(|reason| !reason.is_empty())
        .map(|reason| escaped(reason).into_owned());
    let words: Vec<String> = code.into_iter().chain(reason).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(" ")) }
}

/// Formats a failed relist.
pub fn failed_relist(relist: &Relist) -> Option<String> {
    let error = relist.error.as_deref()?;
    Some(format!(
        "{}  relist {} failed after {}: {}",
        time_of_day(relist.time),
        relist.relist,
        took(relist.duration_seconds.duration()),
        escaped(error)
    ))
}

/// Formats the first relist, whose events are not shown.
pub fn first_relist(relist: &Relist) -> String {
    format!(
        "{}  first relist took {}: {} pods, {} containers, {} events (--initial shows them)",
        time_of_day(relist.time),
        took(relist.duration_seconds.duration()),
        relist.pods,
        relist.containers,
        relist.events
    )
}

/// Formats a change of health.
pub fn health(health: &Health) -> String {
    let verdict = if health.healthy { "PLEG is healthy" } else { "PLEG is not healthy" };
    let text =
        if health.message.is_empty() { String::new() } else { format!(": {}", escaped(&health.message)) };
    format!("{}  {verdict}{text}", time_of_day(health.time))
}

/// Formats a change of the event stream.
pub fn stream(stream: &Stream) -> String {
    let what = match stream.state {
        StreamState::Connected => format!("event stream open (attempt {})", stream.attempt),
        StreamState::Closed => "event stream closed".to_owned(),
        StreamState::Fallback => {
            format!(
                "event stream given up after it ended {} times, as in the kubelet; continuing with relists \
                 only",
                stream.attempt
            )
        }
        StreamState::Panic => "the kubelet would crash".to_owned(),
        StreamState::Dropped => "events lost here".to_owned(),
    };
    let why = stream.error.as_deref().map(|why| format!(": {}", escaped(why))).unwrap_or_default();
    format!("{}  {what}{why}", time_of_day(stream.time))
}

/// Formats a change that only one side saw.
pub fn divergence(divergence: &Divergence) -> Option<String> {
    let (saw, missed) = match divergence.only? {
        EventSource::Generic => ("relisting", "the stream"),
        EventSource::Evented => ("the stream", "relisting"),
    };
    let why = divergence.why.as_deref().map(|why| format!(": {}", escaped(why))).unwrap_or_default();
    Some(format!(
        "{}  {}  {}  {} seen by {saw} and not by {missed}{why}",
        time_of_day(divergence.time),
        pod(&divergence.pod),
        short_id(&divergence.id),
        divergence.event_type.as_str()
    ))
}

/// Formats the stream's part of the status line.
pub fn stream_status(stream: &StreamSummary) -> String {
    let mut text = format!("  stream {}", stream.events);
    if stream.dropped > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, "  DROPPED {}", stream.dropped);
    }
    text
}

/// Formats the comparison's part of the status line.
pub fn compare_status(compared: &CompareSummary) -> String {
    format!(
        "  both {}  only stream {}  only relists {}",
        compared.both,
        compared.missed_by_relisting,
        compared.missed_by_stream + compared.withheld + compared.untold + compared.in_a_gap
    )
}

/// Formats a call with its pod and id: `ContainerStatus of default/web-0 3f2a9c…`.
pub fn about(rpc: &str, of: Option<&PodRef>, id: Option<&str>) -> String {
    let mut text = escaped(rpc).into_owned();
    if let Some(of) = of {
        text.push_str(" of ");
        text.push_str(&pod(of));
    }
    if let Some(id) = id {
        text.push(' ');
        text.push_str(&short_id(id));
    }
    text
}

/// The content of the status line.
#[derive(Clone, Copy, Debug)]
pub struct LiveStatus<'a> {
    /// The number of finished relists.
    pub relists: u64,
    /// The age of PLEG as the kubelet computes it: since the start of the last relist whose lists both
    /// succeeded.
    pub age: Option<Duration>,
    /// The age from which on PLEG is not healthy.
    pub threshold: Duration,
    /// The duration of the last relist.
    pub last: Duration,
    /// The quantiles of the durations.
    pub quantiles: Option<&'a Quantiles>,
    /// The number of pods.
    pub pods: u64,
    /// The pending call.
    pub waiting: Option<&'a str>,
}

/// Formats the status line, the most important values first, because its end may be cut.
pub fn status(shown: &LiveStatus<'_>) -> String {
    let mut line = match shown.age {
        // Without a list there is no age.
        None => "PLEG has yet to relist".to_owned(),
        Some(age) => {
            let verdict = if age > shown.threshold { "  NOT HEALTHY" } else { "" };
            format!("PLEG {} of {}{verdict}", elapsed(age), elapsed(shown.threshold))
        }
    };
    // Writing to a String cannot fail.
    if let Some(waiting) = shown.waiting {
        let _ = write!(line, "  waiting {waiting}");
    }
    let _ = write!(line, "  relist {}", shown.relists);
    if let Some(quantiles) = shown.quantiles {
        let _ = write!(
            line,
            "  last {}  p50 {}  p99 {}  max {}",
            took(shown.last),
            took(quantiles.p50.duration()),
            took(quantiles.p99.duration()),
            took(quantiles.max.duration())
        );
    }
    if shown.age.is_some() {
        let _ = write!(line, "  pods {}", shown.pods);
    }
    line
}

/// Formats a call that has been silent for a while.
pub fn silent(silence: &Silence) -> String {
    let call = about(&silence.rpc, silence.pod.as_ref(), silence.id.as_deref());
    let waited = elapsed(silence.waited_seconds.duration());
    format!("{}  {call} has not answered for {waited}", time_of_day(silence.time))
}

/// Formats the end of a call that was reported as silent.
pub fn answered_late(time: Wall, call: &CallRecord) -> String {
    let ended = match call.outcome {
        Outcome::Ok => "was answered",
        Outcome::Error => "failed",
        Outcome::Silent => "was given up",
    };
    format!(
        "{}  {} {ended}, after {}",
        time_of_day(time),
        about(&call.rpc, call.pod.as_ref(), call.id.as_deref()),
        took(call.duration_seconds.duration())
    )
}

/// Formats a slow relist.
pub fn slow(relist: &Relist) -> Option<String> {
    Some(format!("{}  {}", time_of_day(relist.time), slow_relist(relist, Duration::ZERO)?))
}

/// Formats a diagnosis that was made while a relist was slow.
pub fn diagnosis(time: Wall, report: &HealthReport) -> String {
    let found =
        report.primary.as_ref().map(|finding| format!(": {} {}", finding.id, escaped(&finding.title)));
    format!("{}  diagnosis: {}{}", time_of_day(time), report.verdict.as_str(), found.unwrap_or_default())
}

/// Describes how the slow relist went on during the diagnosis.
pub fn went_on(ended: Option<&Relist>, open: Option<&OpenCall>, call: Duration, relist: Duration) -> String {
    match ended {
        Some(relist) => {
            let how = relist.error.as_deref().map(|why| format!("failed: {}", escaped(why)));
            let slowest = slow_relist(relist, Duration::ZERO);
            let how = how.or(slowest).unwrap_or_default();
            format!("the call has ended since: {how}")
        }
        None => format!("the call has not ended since: {}", still_waiting(open, call, relist)),
    }
}

/// Formats the summary of the watch.
pub fn summary(summary: &WatchSummary, lasted: Duration, ranges: &[(Duration, u64)]) -> Vec<String> {
    // In evented and compare mode, the user wants to know first whether the event stream is good enough.
    let mut lines: Vec<String> =
        summary.compare.iter().map(|compared| format!("{}.", compared.verdict)).collect();
    lines.push(format!(
        "{} relists in {}, {} failed",
        summary.relists,
        if lasted.as_secs() < 10 { took(lasted) } else { elapsed(lasted) },
        summary.failed
    ));
    lines.extend(summary.relist_seconds.as_ref().map(|quantiles| quantile_line("relist", quantiles)));
    lines.extend(summary.interval_seconds.as_ref().map(|quantiles| quantile_line("interval", quantiles)));
    let events: Vec<String> =
        summary.events.iter().map(|(event_type, count)| format!("{} {count}", event_type.as_str())).collect();
    lines.push(format!(
        "events    {}",
        if events.is_empty() { "none".to_owned() } else { events.join("   ") }
    ));
    lines.extend(summary.stream.iter().flat_map(stream_lines));
    lines.extend(summary.compare.iter().flat_map(|compared| compare_lines(compared)));
    let slowest = summary.slowest.iter().enumerate();
    lines.extend(slowest.map(|(place, call)| {
        format!("{}{}", if place == 0 { "slowest   " } else { "          " }, slow_call(call))
    }));
    lines.extend(histogram(ranges));
    lines
}

fn quantile_line(what: &str, quantiles: &Quantiles) -> String {
    format!(
        "{what:<8}  p50 {}   p90 {}   p99 {}   max {}",
        took(quantiles.p50.duration()),
        took(quantiles.p90.duration()),
        took(quantiles.p99.duration()),
        took(quantiles.max.duration())
    )
}

fn stream_lines(stream: &StreamSummary) -> Vec<String> {
    let mut line = format!(
        "stream    opened {}   ended {}   events {}   ignored {}   dropped {}   {}",
        stream.attempts,
        stream.failures,
        stream.events,
        stream.ignored,
        stream.dropped,
        bytes(stream.bytes)
    );
    if stream.panics > 0 {
        // Writing to a String cannot fail.
        let _ = write!(line, "   kubelet crashes {}", stream.panics);
    }
    if stream.crowded > 0 {
        let _ = write!(line, "   relists to forget what is gone {}", stream.crowded);
    }
    if stream.fell_back {
        line.push_str("   given up");
    }
    let latency = stream.latency_seconds.as_ref().map(|quantiles| quantile_line("event", quantiles));
    std::iter::once(line).chain(latency).collect()
}

fn compare_lines(compared: &CompareSummary) -> Vec<String> {
    let mut lines = vec![format!(
        "compare   both {} (stream first {}, relists first {})   only stream {}   only relists {} (no event \
         sent {})   while the stream was closed {}   unexplained {}   undecided {}",
        compared.both,
        compared.evented_first,
        compared.generic_first,
        compared.missed_by_relisting,
        compared.missed_by_stream + compared.withheld + compared.untold,
        compared.untold,
        compared.in_a_gap,
        compared.unexplained,
        compared.undecided
    )];
    lines.push(format!(
        "          duplicates in the stream {}, in relists {}   out of order {}",
        compared.duplicates_evented, compared.duplicates_generic, compared.out_of_order
    ));
    let quantiles = [
        ("gained", &compared.gained_seconds),
        ("stream", &compared.stream_seconds),
        ("relists", &compared.relist_seconds),
    ];
    let some = quantiles.iter().filter_map(|(what, quantiles)| Some((what, quantiles.as_ref()?)));
    lines.extend(some.map(|(what, quantiles)| quantile_line(what, quantiles)));
    if let Some(gained) = &compared.gained_seconds {
        lines.push(format!(
            "It would have saved {} of {} calls, received {} instead of {}, and reported a change {} earlier \
             (p99 {}).",
            compared.spared_calls,
            compared.relist_calls,
            bytes(compared.evented_bytes),
            bytes(compared.relist_bytes),
            took(gained.p50.duration()),
            took(gained.p99.duration())
        ));
    }
    if compared.not_compared > 0 {
        lines.push(format!(
            "Changes that were not compared: {}. plegctl tracks at most {MAX_TRACKED} containers and \
             sandboxes at once, and none with an id or a pod name that is too long.",
            compared.not_compared
        ));
    }
    if compared.missed_by_relisting > 0 {
        lines.push(format!(
            "Relists missed {} transitions of containers or sandboxes that existed only between two relists.",
            compared.missed_by_relisting
        ));
    }
    lines
}

/// Formats what a watch cannot see.
pub fn not_seen(what: &str) -> String {
    format!("And {what}.")
}

fn slow_call(call: &SlowCall) -> String {
    format!(
        "{}  {}{}",
        took(call.duration_seconds.duration()),
        about(&call.rpc, call.pod.as_ref(), call.id.as_deref()),
        if call.silent_so_far { "  (silent so far)" } else { "" }
    )
}

fn histogram(ranges: &[(Duration, u64)]) -> Vec<String> {
    let most = ranges.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let bars = ranges.iter().map(|(bound, count)| {
        let length = (count * BAR).div_ceil(most);
        let bar: String = (0..length).map(|_| '#').collect();
        format!("  ≤ {:<8}{bar} {count}", took(*bound))
    });
    bars.collect()
}

/// Describes a relist that took longer than `limit`, or whose slowest call did.
pub fn slow_relist(relist: &Relist, limit: Duration) -> Option<String> {
    let slowest = relist.calls.iter().max_by_key(|call| call.duration_seconds)?;
    let call = slowest.duration_seconds.duration();
    let whole = relist.duration_seconds.duration();
    (whole.max(call) > limit).then(|| {
        format!(
            "relist {} took {}; its slowest call was {}: {} ({})",
            relist.relist,
            took(whole),
            about(&slowest.rpc, slowest.pod.as_ref(), slowest.id.as_deref()),
            took(call),
            slowest.outcome.as_str()
        )
    })
}

/// Describes the pending call and how long it has been pending.
pub fn waiting(open: &OpenCall, waited: Duration) -> String {
    format!("{} for {}", took(waited), about(open.rpc.name(), open.pod.as_ref(), open.id.as_deref()))
}

/// Describes a relist that has not ended yet.
pub fn still_waiting(open: Option<&OpenCall>, call: Duration, relist: Duration) -> String {
    let call = open.map_or_else(String::new, |open| format!(" and waits {}", waiting(open, call)));
    format!("the relist has taken {} so far{call}", took(relist))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn live_line_has_no_age_before_the_first_relist() {
        let begun = LiveStatus {
            relists: 0,
            age: None,
            threshold: 180 * SECOND,
            last: Duration::ZERO,
            quantiles: None,
            pods: 0,
            waiting: None,
        };
        assert_eq!(status(&begun), "PLEG has yet to relist  relist 0");
        let waiting = Some("12.0s for ContainerStatus of shop/db-0 c1");
        let quantiles = Quantiles {
            p50: Duration::from_millis(20).into(),
            p90: Duration::from_millis(30).into(),
            p99: Duration::from_millis(40).into(),
            max: Duration::from_millis(50).into(),
        };
        let later = LiveStatus {
            relists: 7,
            age: Some(13 * SECOND),
            last: Duration::from_millis(25),
            quantiles: Some(&quantiles),
            pods: 3,
            waiting,
            ..begun
        };
        assert_eq!(
            status(&later),
            "PLEG 13s of 3m  waiting 12.0s for ContainerStatus of shop/db-0 c1  relist 7  last 25.0ms  p50 20.0ms  \
             p99 40.0ms  max 50.0ms  pods 3"
        );
        let over = status(&LiveStatus { age: Some(181 * SECOND), ..later });
        assert!(over.starts_with("PLEG 3m1s of 3m  NOT HEALTHY  waiting "), "{over}");
    }

    #[test]
    fn silence_has_a_line_at_each_step_and_a_slow_relist_names_its_slowest_call() {
        let db = PodRef { uid: "u".into(), namespace: "shop".into(), name: "db-0".into() };
        for (waited, said) in [(5, "5s"), (10, "10s"), (30, "30s"), (60, "60s"), (120, "2m")] {
            let line = silent(&Silence {
                time: Wall::default(),
                rpc: "ContainerStatus".into(),
                pod: Some(db.clone()),
                id: Some("0123456789abcdef".into()),
                waited_seconds: (waited * SECOND).into(),
            });
            let end = format!("  ContainerStatus of shop/db-0 0123456789ab has not answered for {said}");
            assert!(line.ends_with(&end), "{line}");
        }
        let call = |rpc: &str, seconds: u32| CallRecord {
            rpc: rpc.to_owned(),
            id: None,
            pod: None,
            duration_seconds: (seconds * SECOND).into(),
            response_bytes: 0,
            outcome: Outcome::Ok,
            code: None,
            message: None,
        };
        let relist = Relist {
            duration_seconds: (9 * SECOND).into(),
            calls: vec![call("ListPodSandbox", 2), call("ListContainers", 6), call("ContainerStatus", 1)],
            ..Relist::new(Wall::default(), 4)
        };
        let line = slow(&relist).unwrap();
        assert!(
            line.ends_with("relist 4 took 9.00s; its slowest call was ListContainers: 6.00s (ok)"),
            "{line}"
        );
    }
}
