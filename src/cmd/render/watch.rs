//! Formats the records of `plegctl watch` as lines of text: events, relists, the status line and the summary.

use std::collections::VecDeque;
use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::words::{cut, cut_in_the_middle, elapsed, grouped, or_none, padded, short_id, took, width};
use crate::clock::Wall;
use crate::cmd::term::queued_output::Color;
use crate::cri::Outcome;
use crate::diagnosis::HealthReport;
use crate::pleg::compare::MAX_TRACKED;
use crate::pleg::stream::{
    CompareSummary, Divergence, Event, EventSource, EventSubject, EventType, Health, Quantiles, Relist,
    Silence, SlowCall, Stream, StreamState, StreamSummary, WatchStarted, WatchSummary,
};
use crate::pleg::{CallRecord, OpenCall, PlegState, PodRef};
use crate::report::bytes::bytes;
use crate::report::plural;

/// The width of the longest bar of the histogram.
const MAX_BAR: u64 = 40;

/// Formats the time of day in UTC, with milliseconds.
pub fn time_of_day(time: Wall) -> String {
    time.to_string().get(11..23).unwrap_or_default().to_owned()
}

/// Formats the time of day in UTC, to the second.
pub fn seconds_of_day(time: Wall) -> String {
    time.to_string().get(11..19).unwrap_or_default().to_owned()
}

/// Formats a line about a moment.
fn at(time: Wall, text: impl Display) -> String {
    format!("{}  {text}", time_of_day(time))
}

/// Formats `namespace/name`; if the name is not known, the UID.
pub fn pod(pod: &PodRef) -> String {
    if pod.name.is_empty() {
        or_none(&pod.uid)
    } else {
        format!("{}/{}", or_none(&pod.namespace), or_none(&pod.name))
    }
}

/// The colours of lines.
pub const BOLD: Color = "1";
pub const RED: Color = "31";
pub const GREEN: Color = "32";
pub const YELLOW: Color = "33";
const DIM: Color = "2";

/// Returns the colour of an event: red for a failed container, green for a start, dim for a removal.
pub const fn color_of(event: &Event) -> Color {
    match (event.event_type, event.exit_code) {
        (EventType::ContainerStarted, _) => GREEN,
        (EventType::ContainerDied, Some(0)) | (EventType::PodSync, _) => "",
        (EventType::ContainerDied, Some(_)) => RED,
        (EventType::ContainerDied, None) => YELLOW,
        (EventType::ContainerChanged | EventType::ContainerRemoved, _) => DIM,
    }
}

/// The columns of event lines. Their widths depend on the terminal only, so that they stay the same.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The width of the terminal. Without a terminal, no name is shortened.
    limit: Option<usize>,
    gap: &'static str,
    time: usize,
    pod: usize,
    subject: usize,
    change: usize,
    /// Whether `ContainerDied` is shown as `Died`.
    short_type: bool,
}

/// The width at which a terminal is wide, with whole times of day and more room between columns.
const WIDE: usize = 100;

/// The width below which a terminal is narrow.
const NARROW: usize = 72;

/// The length of `ContainerRemoved` and of `Removed`, the longest type.
const TYPE: usize = 16;
const SHORT_TYPE: usize = 7;

/// What marks an event of the stream.
const STREAM: &str = " [stream]";

/// The widest columns for a pod and for a container.
const MAX_POD: usize = 48;
const MAX_SUBJECT: usize = 20;

impl Columns {
    /// Divides a line of this width. `streams` is whether there are events of the stream too.
    pub fn with_limit(limit: Option<usize>, streams: bool) -> Self {
        let width = limit.unwrap_or(120);
        // `running → exited (137 OOMKilled)` has 32 columns. Its type is short, so 29 are enough if space is rare.
        let (gap, time, change) = match width {
            WIDE.. => ("  ", 12, 32),
            NARROW.. => (" ", 8, 29),
            _ => (" ", 8, 22),
        };
        let short_type = width < NARROW || streams && width < WIDE;
        let fixed = time + change + 4 * gap.len() + if short_type { SHORT_TYPE } else { TYPE };
        let names = width.saturating_sub(fixed + if streams { STREAM.len() } else { 0 });
        let subject = (names * 2 / 5).clamp(4, MAX_SUBJECT);
        let pod = names.saturating_sub(subject).clamp(4, MAX_POD);
        Self { limit, gap, time, pod, subject, change, short_type }
    }

    /// Formats the header.
    pub fn header(&self) -> String {
        let time = if self.time < 10 { "UTC" } else { "TIME (UTC)" };
        self.line(time, "POD", "CONTAINER", &format!("{}{}EVENT", padded("CHANGE", self.change), self.gap))
    }

    /// Formats one event. If the change is longer than its column, the pod gets shorter.
    pub fn event(&self, event: &Event) -> String {
        let name = event.event_type.as_str();
        let name = if self.short_type { name.trim_start_matches("Container") } else { name };
        let change = padded(&transition(event), self.change);
        let mut tail = format!("{change}{}{name}", self.gap);
        if !event.delivered {
            // In a terminal, the change shows that the type is `ContainerChanged`.
            tail = match self.limit {
                Some(_) if self.short_type => tail,
                Some(_) => format!("{change}{}(not delivered)", self.gap),
                None => tail + "  (computed, not delivered)",
            };
        }
        let mut columns = *self;
        if let Some(limit) = self.limit {
            let is_stream = event.source == EventSource::Evented;
            tail.push_str(if is_stream { STREAM } else { "" });
            let names = limit.saturating_sub(self.time + 3 * self.gap.len() + width(&tail));
            columns.subject = self.subject.min(names / 2);
            columns.pod = self.pod.min(names - columns.subject);
        } else if event.source == EventSource::Evented {
            let latency = event.latency_seconds.map(|latency| format!(" after {}", took(latency.duration())));
            tail.extend(["  [stream", &latency.unwrap_or_default(), "]"]);
        }
        let time = time_of_day(event.time);
        let time = time.get(..self.time).unwrap_or_default();
        columns.line(time, &columns.pod(&event.pod), &columns.subject(event), &tail)
    }

    /// Formats a line: three cells and its end, which has its own columns.
    fn line(&self, time: &str, pod: &str, subject: &str, tail: &str) -> String {
        let subject = cut(subject, if self.limit.is_some() { self.subject } else { usize::MAX });
        let cells = [padded(time, self.time), padded(pod, self.pod), padded(&subject, self.subject)];
        format!("{}{}{tail}", cells.join(self.gap), self.gap)
    }

    /// Formats the pod. In a terminal, the namespace and then the middle of the name make room.
    fn pod(&self, of: &PodRef) -> String {
        let (whole, columns) = (pod(of), self.pod);
        if self.limit.is_none() || width(&whole) <= columns {
            return whole;
        }
        if of.name.is_empty() {
            return cut(&whole, columns);
        }
        // A few columns are too few for a mark of the namespace.
        let mark = if columns < 10 { "" } else { "…/" };
        format!("{mark}{}", cut_in_the_middle(&or_none(&of.name), columns - width(mark)))
    }

    /// Formats the container, the sandbox or the pod.
    fn subject(&self, event: &Event) -> String {
        let id = event.id.as_deref().unwrap_or_default();
        match (event.subject, &event.name) {
            (EventSubject::Pod, _) => "pod".to_owned(),
            // The first digits of an id are enough to recognise it; `line` cuts the rest.
            (EventSubject::Sandbox, _) if self.subject < "sandbox ".len() + 4 => "sandbox".to_owned(),
            (EventSubject::Sandbox, _) => format!("sandbox {}", short_id(id)),
            (EventSubject::Container, Some(name)) if !name.is_empty() => match self.limit {
                Some(_) => cut_in_the_middle(name, self.subject),
                None => name.clone(),
            },
            (EventSubject::Container, _) => short_id(id),
        }
    }
}

/// Formats the change of an event's state, such as `running → exited (137 OOMKilled)`.
pub fn transition(event: &Event) -> String {
    let states = match (event.from, event.to) {
        (Some(from), Some(to)) => format!("{} → {}", from.as_str(), to.as_str()),
        (None, Some(to)) => format!("→ {}", to.as_str()),
        (_, None) => String::new(),
    };
    states + &death(event)
}

/// Formats ` (137 OOMKilled)` for a container that died.
fn death(event: &Event) -> String {
    if event.to == Some(PlegState::Running) {
        return String::new();
    }
    let code = event.exit_code.map(|code| code.to_string());
    let reason = event.reason.clone().filter(|reason| !reason.is_empty());
    let words: Vec<String> = code.into_iter().chain(reason).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(" ")) }
}

/// Formats the start of the watch: what is watched, and how. `shown` describes which pods are shown.
pub fn started(started: &WatchStarted) -> String {
    let runtime = &started.runtime;
    let [node, name, version] =
        [&started.node, &runtime.name, &runtime.version].map(|word| word.as_deref().unwrap_or_default());
    let node = if node.is_empty() { "this node" } else { node };
    format!(
        "watching {node} ({name} {version} at {}): {} mode, a relist every {} as in kubelet {}, threshold {}",
        runtime.endpoint,
        started.mode,
        humantime::format_duration(started.period_seconds.duration()),
        started.kubelet_version,
        elapsed(started.threshold_seconds.duration()),
    )
}

/// Formats that a comparison has no result yet.
pub fn undecided(time: Wall) -> String {
    at(time, "EventedPLEG is undecided until relists or the stream have reported a change")
}

/// Formats the number of stream events that are older than the watch.
pub fn backlog(time: Wall, events: u64) -> String {
    let ending = if events == 1 { "" } else { "s" };
    let events = grouped(events);
    at(time, format!("{events} event{ending} older than the watch (--initial shows them)"))
}

/// Formats a failed relist.
pub fn failed_relist(relist: &Relist) -> Option<String> {
    let error = relist.error.as_deref()?;
    let took = took(relist.duration_seconds.duration());
    Some(at(relist.time, format!("relist {} failed after {took}: {error}", relist.relist)))
}

/// Formats the first relist, whose events are shown only with `--initial`.
pub fn first_relist(relist: &Relist) -> String {
    let took = took(relist.duration_seconds.duration());
    let (pods, containers) = (plural(relist.pods, "pod"), plural(relist.containers, "container"));
    let events = plural(relist.events, "event");
    at(
        relist.time,
        format!("first relist took {took}: {pods}, {containers}, {events} (--initial shows them)"),
    )
}

/// Formats a change of health.
pub fn health(health: &Health) -> String {
    let verdict = if health.healthy { "PLEG is healthy" } else { "PLEG is not healthy" };
    let text = if health.message.is_empty() { String::new() } else { format!(": {}", health.message) };
    at(health.time, format!("{verdict}{text}"))
}

/// Formats a change of the state of the event stream.
pub fn stream(stream: &Stream) -> String {
    let what = match stream.state {
        StreamState::Connected => format!("event stream open (attempt {})", stream.attempt),
        StreamState::Closed => "event stream closed".to_owned(),
        StreamState::Fallback => {
            format!(
                "event stream given up after it ended {}, as in the kubelet; continuing with relists only",
                plural(stream.attempt, "time")
            )
        }
        StreamState::Panic => "the kubelet would crash".to_owned(),
        StreamState::Dropped => "events lost here".to_owned(),
    };
    let why = stream.error.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    at(stream.time, format!("{what}{why}"))
}

/// Formats a change that only the event stream or only the relists saw.
pub fn divergence(divergence: &Divergence) -> Option<String> {
    let (saw, missed) = match divergence.only? {
        EventSource::Generic => ("relisting", "the stream"),
        EventSource::Evented => ("the stream", "relisting"),
    };
    let why = divergence.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let (pod, id, change) = (pod(&divergence.pod), short_id(&divergence.id), divergence.event_type.as_str());
    Some(at(divergence.time, format!("{pod}  {id}  {change} seen by {saw} and not by {missed}{why}")))
}

/// Formats the stream's part of the status line.
pub fn stream_status(stream: &StreamSummary) -> String {
    let mut text = format!("stream {}", stream.events);
    if stream.dropped > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, "  DROPPED {}", stream.dropped);
    }
    text
}

/// Formats the comparison's part of the status line.
pub fn compare_status(compared: &CompareSummary) -> String {
    let only_relists = compared.missed_by_stream + compared.withheld + compared.untold + compared.in_a_gap;
    let (both, only_stream) = (compared.both, compared.missed_by_relisting);
    if both + only_stream + only_relists == 0 {
        return "undecided".to_owned();
    }
    format!("both {both}  only stream {only_stream}  only relists {only_relists}")
}

/// Formats a call with its pod and id: `ContainerStatus of default/web-0 3f2a9c…`.
pub fn about(rpc: &str, of: Option<&PodRef>, id: Option<&str>) -> String {
    let mut text = rpc.to_owned();
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
    /// The age at which PLEG is not healthy.
    pub threshold: Duration,
    /// The durations of the last relists, the newest last.
    pub recent: &'a VecDeque<Duration>,
    /// The quantiles of the durations.
    pub quantiles: Option<&'a Quantiles>,
    pub pods: u64,
    /// The pending call.
    pub waiting: Option<&'a str>,
    /// What the event stream has brought.
    pub streams: &'a [String],
}

/// Formats the status line, the most important values first. A value for which a terminal of this width has no room is
/// left out.
pub fn status(shown: &LiveStatus<'_>, columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(usize::MAX).saturating_sub(3);
    let mut line = match shown.age {
        // Without a list there is no age.
        None => "PLEG has yet to relist".to_owned(),
        Some(age) => {
            let verdict = if age > shown.threshold { "  NOT HEALTHY" } else { "" };
            format!("PLEG {} of {}{verdict}", elapsed(age), elapsed(shown.threshold))
        }
    };
    if let Some(waiting) = shown.waiting {
        // Writing to a String cannot fail.
        let _ = write!(line, "  waiting {waiting}");
    }
    let mut values = Vec::new();
    if let Some(last) = shown.recent.back() {
        let bars = if columns < NARROW || !shown.streams.is_empty() { 8 } else { 10 };
        values.push(format!("{}  last {}", sparkline(shown.recent, bars), took(*last)));
    }
    values.extend_from_slice(shown.streams);
    if let Some(quantiles) = shown.quantiles {
        let named = [("p50", quantiles.p50), ("p99", quantiles.p99), ("max", quantiles.max)];
        // In a narrow terminal, the slow relists are more important.
        let named = named.into_iter().skip(usize::from(columns < NARROW));
        values.extend(named.map(|(name, value)| format!("{name} {}", took(value.duration()))));
    }
    values.push(format!("relist {}", shown.relists));
    if shown.age.is_some() {
        values.push(format!("pods {}", shown.pods));
    }
    for value in values {
        if width(&line) + 2 + width(&value) <= columns {
            line.extend(["  ", &value]);
        }
    }
    line
}

/// Draws the last durations as bars on a logarithmic scale, from 1 ms (`▁`) to 3 s and more (`█`).
fn sparkline(durations: &VecDeque<Duration>, bars: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const BOUNDS: [u64; 7] = [3, 10, 30, 100, 300, 1000, 3000];
    let newest = durations.iter().skip(durations.len().saturating_sub(bars));
    let bar = |took: &Duration| {
        let height = BOUNDS.iter().filter(|bound| *took >= Duration::from_millis(**bound)).count();
        BARS.get(height).copied().unwrap_or_default()
    };
    newest.map(bar).collect()
}

/// Formats a call that has been silent for a while.
pub fn silent(silence: &Silence) -> String {
    let call = about(&silence.rpc, silence.pod.as_ref(), silence.id.as_deref());
    let waited = elapsed(silence.waited_seconds.duration());
    at(silence.time, format!("{call} has not answered for {waited}"))
}

/// Formats the end of a call that was reported as silent.
pub fn answered_late(time: Wall, call: &CallRecord) -> String {
    let ended = match call.outcome {
        Outcome::Ok => "was answered",
        Outcome::Error => "failed",
        Outcome::Silent => "was given up",
    };
    let took = took(call.duration_seconds.duration());
    let call = about(&call.rpc, call.pod.as_ref(), call.id.as_deref());
    at(time, format!("{call} {ended}, after {took}"))
}

/// Formats a slow relist.
pub fn slow(relist: &Relist) -> Option<String> {
    Some(at(relist.time, slow_relist(relist, Duration::ZERO)?))
}

/// Formats a diagnosis that was made while a relist was slow.
pub fn diagnosis(time: Wall, report: &HealthReport) -> String {
    let found = report.primary.as_ref().map(|finding| format!(": {} {}", finding.id, finding.title));
    at(time, format!("diagnosis: {}{}", report.verdict.as_str(), found.unwrap_or_default()))
}

/// Describes what became of the slow relist during the diagnosis.
pub fn relist_outcome(
    ended: Option<&Relist>,
    open: Option<&OpenCall>,
    call: Duration,
    relist: Duration,
) -> String {
    match ended {
        Some(relist) => {
            let how = relist.error.as_deref().map(|why| format!("failed: {why}"));
            let slowest = slow_relist(relist, Duration::ZERO);
            let how = how.or(slowest).unwrap_or_default();
            format!("the call has ended since then: {how}")
        }
        None => format!("the call is still pending: {}", still_waiting(open, call, relist)),
    }
}

/// Formats the summary of the watch.
pub fn summary(summary: &WatchSummary, lasted: Duration, ranges: &[(Duration, u64)]) -> Vec<String> {
    // In evented and compare mode, the user wants to know first whether the event stream is good enough.
    let mut lines: Vec<String> =
        summary.compare.iter().map(|compared| format!("{}.", compared.verdict)).collect();
    lines.push(format!(
        "{} in {}, {} failed",
        plural(summary.relists, "relist"),
        if lasted.as_secs() < 10 { took(lasted) } else { elapsed(lasted) },
        summary.failed
    ));
    if let Some(quantiles) = &summary.relist_seconds {
        lines.push(quantile_line("relist", quantiles));
        lines.push(explained_p99(summary.relists));
    }
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

/// Explains the p99 of this number of relists.
fn explained_p99(relists: u64) -> String {
    if relists < 100 {
        return format!(
            "          p99: 99 of 100 relists take at most this long. With only {relists}, it is the longest"
        );
    }
    "          p99: 99 of 100 relists took at most this long".to_owned()
}

/// Formats the quantiles of a duration.
fn quantile_line(what: &str, quantiles: &Quantiles) -> String {
    let Quantiles { p50, p90, p99, max } = quantiles;
    let [p50, p90, p99, max] = [p50, p90, p99, max].map(|seconds| took(seconds.duration()));
    format!("{what:<8}  p50 {p50}   p90 {p90}   p99 {p99}   max {max}")
}

/// Formats the totals of the event stream.
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
        let _ = write!(line, "   relists to remove deleted pods {}", stream.crowded);
    }
    if stream.fell_back {
        line.push_str("   given up");
    }
    let latency = stream.latency_seconds.as_ref().map(|quantiles| quantile_line("event", quantiles));
    std::iter::once(line).chain(latency).collect()
}

/// Formats the totals of `--mode compare`.
fn compare_lines(compared: &CompareSummary) -> Vec<String> {
    let mut lines = vec![format!(
        "compare   both {} (stream first {}, relists first {})   only stream {}   only relists {} (no event \
         sent {})   while the stream was closed {}   unexplained {}   still open {}",
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
            "EventedPLEG would have saved {} of {} calls, received {} instead of {}, and reported a change {} earlier \
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
            "Relists missed {} of containers or sandboxes that existed only between two relists.",
            plural(compared.missed_by_relisting, "transition")
        ));
    }
    lines
}

/// Formats what a kubelet sees and this watch cannot.
pub fn not_seen(what: &str) -> String {
    format!("Also, {what}.")
}

/// Formats a slow call with its pod and its id.
fn slow_call(call: &SlowCall) -> String {
    format!(
        "{}  {}{}",
        took(call.duration_seconds.duration()),
        about(&call.rpc, call.pod.as_ref(), call.id.as_deref()),
        if call.silent_so_far { "  (silent so far)" } else { "" }
    )
}

/// Formats a histogram, one line for each range.
fn histogram(ranges: &[(Duration, u64)]) -> Vec<String> {
    let largest = ranges.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let bars = ranges.iter().map(|(bound, count)| {
        let length = (count * MAX_BAR).div_ceil(largest);
        let bar: String = (0..length).map(|_| '#').collect();
        format!("  ≤ {:<8}{bar} {count}", took(*bound))
    });
    bars.collect()
}

/// Describes a relist that took longer than `limit`, or whose slowest call took longer; `None` for another relist.
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

    fn quantiles() -> Quantiles {
        let [p50, p90, p99, max] = [20, 30, 40, 50].map(|millis| Duration::from_millis(millis).into());
        Quantiles { p50, p90, p99, max }
    }

    #[test]
    fn live_line_has_no_age_before_the_first_relist() {
        let no_relist = VecDeque::new();
        let at_start = LiveStatus {
            relists: 0,
            age: None,
            threshold: 180 * SECOND,
            recent: &no_relist,
            quantiles: None,
            pods: 0,
            waiting: None,
            streams: &[],
        };
        assert_eq!(status(&at_start, None), "PLEG has yet to relist  relist 0");
        let recent = VecDeque::from([1, 4, 25, 5000, 25].map(Duration::from_millis));
        let quantiles = quantiles();
        let later = LiveStatus {
            relists: 7,
            age: Some(13 * SECOND),
            recent: &recent,
            quantiles: Some(&quantiles),
            pods: 3,
            waiting: Some("12.0s for ContainerStatus of shop/db-0 c1"),
            ..at_start
        };
        assert_eq!(
            status(&later, None),
            "PLEG 13s of 3m  waiting 12.0s for ContainerStatus of shop/db-0 c1  ▁▂▃█▃  last 25.0ms  p50 20.0ms  \
             p99 40.0ms  max 50.0ms  relist 7  pods 3"
        );
        let over = status(&LiveStatus { age: Some(181 * SECOND), ..later }, None);
        assert!(over.starts_with("PLEG 3m1s of 3m  NOT HEALTHY  waiting "), "{over}");
    }

    #[test]
    fn live_line_leaves_out_whole_values_that_do_not_fit() {
        let recent: VecDeque<Duration> = (0..20).map(|_| SECOND).collect();
        let (quantiles, streams) = (quantiles(), [compare_status(&CompareSummary::default())]);
        let shown = LiveStatus {
            relists: 70,
            age: Some(SECOND),
            threshold: 180 * SECOND,
            recent: &recent,
            quantiles: Some(&quantiles),
            pods: 30,
            waiting: None,
            streams: &[],
        };
        let at = |columns| status(&shown, Some(columns));
        assert_eq!(at(80), "PLEG 1s of 3m  ▇▇▇▇▇▇▇▇▇▇  last 1.00s  p50 20.0ms  p99 40.0ms  max 50.0ms");
        assert_eq!(at(60), "PLEG 1s of 3m  ▇▇▇▇▇▇▇▇  last 1.00s  p99 40.0ms  pods 30");
        assert!(at(120).ends_with("  max 50.0ms  relist 70  pods 30"));
        let compared = status(&LiveStatus { streams: &streams, ..shown }, Some(60));
        assert_eq!(compared, "PLEG 1s of 3m  ▇▇▇▇▇▇▇▇  last 1.00s  undecided  relist 70");
    }

    /// Events of the kinds that a narrow terminal has to shorten.
    fn events() -> [Event; 4] {
        let at = Wall::from_nanos(1_795_262_400_512_000_000);
        let event = |event_type, namespace: &str, pod: &str, container: &str, from, to| Event {
            id: Some("12e070612b10aabbccdd".to_owned()),
            name: Some(container.to_owned()),
            from: Some(from),
            to: Some(to),
            ..Event::new(
                at,
                EventSource::Generic,
                event_type,
                PodRef { uid: "u".into(), namespace: namespace.into(), name: pod.into() },
                EventSubject::Container,
            )
        };
        let (running, exited, gone) = (PlegState::Running, PlegState::Exited, PlegState::NonExistent);
        let importer = "importer-52nxb42ndr-bpwms";
        let mut died = event(EventType::ContainerDied, "shop", importer, "importer", running, exited);
        (died.exit_code, died.reason) = (Some(137), Some("OOMKilled".to_owned()));
        let sandbox = event(EventType::ContainerDied, "shop", importer, "", running, exited);
        [
            event(EventType::ContainerStarted, "kube-system", "etcd-n1", "etcd", gone, running),
            died,
            Event { subject: EventSubject::Sandbox, ..sandbox },
            event(EventType::ContainerRemoved, "shop", "db-0", "a-sidecar-with-a-long-name", exited, gone),
        ]
    }

    fn screen(columns: Option<usize>) -> String {
        let columns = Columns::with_limit(columns, false);
        let rows = events().map(|event| columns.event(&event));
        [columns.header()].into_iter().chain(rows).flat_map(|row| [row, "\n".to_owned()]).collect()
    }

    #[test]
    fn a_terminal_shortens_names_and_ids_and_never_the_change() {
        let rows =
            |columns| screen(columns).lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            rows(Some(120)),
            [
                "TIME (UTC)    POD                               CONTAINER             CHANGE                            EVENT",
                "12:00:00.512  kube-system/etcd-n1               etcd                  non-existent → running            ContainerStarted",
                "12:00:00.512  shop/importer-52nxb42ndr-bpwms    importer              running → exited (137 OOMKilled)  ContainerDied",
                "12:00:00.512  shop/importer-52nxb42ndr-bpwms    sandbox 12e070612b10  running → exited                  ContainerDied",
                "12:00:00.512  shop/db-0                         a-sidecar-…long-name  exited → non-existent             ContainerRemoved",
            ]
        );
        assert_eq!(
            rows(Some(80)),
            [
                "UTC      POD            CONTAINER CHANGE                        EVENT",
                "12:00:00 …/etcd-n1      etcd      non-existent → running        ContainerStarted",
                "12:00:00 …/import…bpwms importer  running → exited (137 OOMKilled) ContainerDied",
                "12:00:00 …/import…bpwms sandbox   running → exited              ContainerDied",
                "12:00:00 shop/db-0      a-si…name exited → non-existent         ContainerRemoved",
            ]
        );
        assert_eq!(
            rows(Some(60)),
            [
                "UTC      POD          CONTAI… CHANGE                 EVENT",
                "12:00:00 …/etcd-n1    etcd    non-existent → running Started",
                "12:00:00 imp…ms imp…er running → exited (137 OOMKilled) Died",
                "12:00:00 …/impor…pwms sandbox running → exited       Died",
                "12:00:00 shop/db-0    a-s…ame exited → non-existent  Removed",
            ]
        );
        let [_, _, _, removed] = events();
        let piped = Columns::with_limit(None, false).event(&removed);
        assert!(piped.contains("  a-sidecar-with-a-long-name  exited"), "a pipe gets whole names: {piped}");
    }

    #[test]
    fn a_change_that_is_longer_than_its_column_shortens_the_pod() {
        let [_, mut died, ..] = events();
        died.reason = Some("ContainerCannotRun".to_owned());
        for columns in [80, 100, 120] {
            let row = Columns::with_limit(Some(columns), false).event(&died);
            assert!(width(&row) <= columns, "{row}");
            assert!(
                row.ends_with("running → exited (137 ContainerCannotRun) ContainerDied") || columns > 80,
                "{row}"
            );
        }
    }

    #[test]
    fn colour_shows_what_happened() {
        let [started, died, sandbox, removed] = events();
        assert_eq!([&started, &died, &sandbox, &removed].map(color_of), [GREEN, RED, YELLOW, DIM]);
        assert_eq!(color_of(&Event { exit_code: Some(0), ..died }), "");
    }

    #[test]
    fn events_of_the_stream_are_marked() {
        let [event, ..] = events();
        let event =
            Event { source: EventSource::Evented, latency_seconds: Some((2 * SECOND).into()), ..event };
        let row = |columns| Columns::with_limit(columns, true).event(&event);
        assert!(row(None).ends_with("  ContainerStarted  [stream after 2.00s]"), "{}", row(None));
        for columns in [60, 80, 120] {
            let row = row(Some(columns));
            assert!(row.ends_with("Started [stream]") && width(&row) <= columns, "{row}");
        }
    }

    #[test]
    fn summary_explains_p99() {
        assert!(explained_p99(13).ends_with("With only 13, it is the longest"));
        assert!(!explained_p99(100).contains("longest"));
    }

    #[test]
    fn backlog_is_counted_in_one_line() {
        let line = backlog(Wall::default(), 1008);
        assert!(line.ends_with("  1 008 events older than the watch (--initial shows them)"), "{line}");
    }

    #[test]
    fn silence_has_a_line_at_each_step_and_a_slow_relist_names_its_slowest_call() {
        let db = PodRef { uid: "u".into(), namespace: "shop".into(), name: "db-0".into() };
        for (waited, shown) in [(5, "5s"), (10, "10s"), (30, "30s"), (60, "60s"), (120, "2m")] {
            let line = silent(&Silence {
                time: Wall::default(),
                rpc: "ContainerStatus".into(),
                pod: Some(db.clone()),
                id: Some("0123456789abcdef".into()),
                waited_seconds: (waited * SECOND).into(),
            });
            let end = format!("  ContainerStatus of shop/db-0 0123456789ab has not answered for {shown}");
            assert!(line.ends_with(&end), "{line}");
        }
        let call = |rpc: &str, seconds: u32| CallRecord {
            rpc: rpc.to_owned(),
            id: None,
            pod: None,
            duration_seconds: (seconds * SECOND).into(),
            response_bytes: 0,
            stream: None,
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
