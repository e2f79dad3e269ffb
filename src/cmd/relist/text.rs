//! Formats the report of `plegctl relist` as a table or as metrics.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::time::Duration;

use crate::clock::Wall;
use crate::cmd::render::page::Page;
use crate::cmd::render::table::{self, Column};
use crate::cmd::render::watch::{about, pod};
use crate::cmd::render::words::{SHORT_ID, age, percent, short_id, took};
use crate::cri::{KUBELET_RECEIVE_LIMIT, Outcome};
use crate::pleg::CallRecord;
use crate::pleg::report::{RelistCost, RelistReport, ReportedContainer, ReportedPod};
use crate::report::bytes::bytes;
use crate::report::plural;

/// The number of slow calls, and of calls without an answer, that are listed.
const MAX_CALLS: usize = 10;

/// A row of the table: a pod and one of its containers. A pod without containers has one row too.
pub type Row<'a> = (&'a ReportedPod, Option<&'a ReportedContainer>);

/// Returns the rows in the order of the report.
pub fn rows(report: &RelistReport) -> Vec<Row<'_>> {
    let rows = report.pods.iter().flat_map(|pod| {
        let alone = pod.containers.is_empty().then_some((pod, None));
        pod.containers.iter().map(move |container| (pod, Some(container))).chain(alone)
    });
    rows.collect()
}

/// The durations of status calls, by the id of the container or sandbox.
#[derive(Debug, Default)]
pub struct Durations(HashMap<String, Duration>);

impl Durations {
    /// Collects the durations of the recorded calls.
    pub fn of_calls(calls: &[CallRecord]) -> Self {
        let known =
            calls.iter().filter_map(|call| Some((call.id.clone()?, call.duration_seconds.duration())));
        Self(known.collect())
    }

    /// Returns the longest duration for a row: of its container, or of the sandboxes of a pod without
    /// containers.
    pub fn longest_of(&self, (pod, container): &Row<'_>) -> Option<Duration> {
        match container {
            Some(container) => self.0.get(&container.id).copied(),
            None => pod.sandboxes.iter().filter_map(|sandbox| self.0.get(&sandbox.id)).max().copied(),
        }
    }
}

type RowColumn<'a> = Column<'a, Row<'a>>;
type CallColumn<'a> = Column<'a, CallRecord>;

/// The content of the table.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The rows, in their order.
    pub rows: &'a [Row<'a>],
    /// The durations of the status calls. If there are any, the table has a column for them.
    pub took: &'a Durations,
    /// Whether the wide table is printed.
    pub wide: bool,
    /// The present time, for ages.
    pub now: Wall,
}

/// Prints the rows as a table, then the durations of the calls.
pub fn table(report: &RelistReport, shown: &Shown<'_>, out: &mut Page<'_>) -> io::Result<()> {
    if !shown.rows.is_empty() {
        table::write(out, columns(shown), shown.rows)?;
        writeln!(out)?;
    }
    if shown.wide && !report.relist.calls.is_empty() {
        slowest(&report.relist.calls, out)?;
        writeln!(out)?;
    }
    writeln!(out, "{}", latency(&report.relist))?;
    let failed: Vec<&CallRecord> =
        statuses(&report.relist).filter(|call| call.outcome != Outcome::Ok).collect();
    for call in failed.iter().take(MAX_CALLS) {
        writeln!(out, "  {}", failure(call))?;
    }
    match failed.len().saturating_sub(MAX_CALLS) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more; -o json has all of them"),
    }
}

/// Returns the status calls.
fn statuses(relist: &RelistCost) -> impl Iterator<Item = &CallRecord> {
    relist.calls.iter().filter(|call| call.id.is_some())
}

/// Formats a call without an answer, such as `ContainerStatus of shop/db-0 a1b2c3: silent after 10s`.
fn failure(call: &CallRecord) -> String {
    let subject = about(&call.rpc, call.pod.as_ref(), call.id.as_deref());
    let (outcome, after) = (call.outcome.as_str(), took(call.duration_seconds.duration()));
    let why = call.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{subject}: {outcome} after {after}{why}")
}

/// Prints one line for each pod.
pub fn names(report: &RelistReport, out: &mut Page<'_>) -> io::Result<()> {
    report.pods.iter().try_for_each(|of| writeln!(out, "{}", pod(&of.into())))
}

fn columns<'a>(shown: &Shown<'a>) -> Vec<RowColumn<'a>> {
    let Shown { wide, now, took: durations, .. } = *shown;
    let created_at = |(pod, container): &Row<'_>| container.map_or(pod.created_at, |of| of.created_at);
    vec![
        RowColumn::new("NAMESPACE", |(pod, _)| pod.namespace.clone()),
        RowColumn::new("POD", |(pod, _)| pod.name.clone()),
        RowColumn::new("CONTAINER", |(_, container)| container.map(|of| of.name.clone())),
        RowColumn::new("STATE", |(_, container)| container.map(|of| of.state.as_str().to_owned())),
        RowColumn::new("ATTEMPT", |(_, container)| container.map(|of| of.attempt.to_string())),
        RowColumn::new("AGE", move |row| age(now, created_at(row))),
        RowColumn::new("CONTAINER-ID", |(_, container)| container.map(|of| short_id(&of.id))),
        RowColumn::new("TOOK", |row| durations.longest_of(row).map(took)).shown_if(!durations.0.is_empty()),
        RowColumn::new("PLEG", |(_, container)| container.map(|of| of.pleg_state.as_str().to_owned()))
            .shown_if(wide),
        RowColumn::new("SANDBOXES", |(pod, _)| {
            let states = pod.sandboxes.iter().map(|sandbox| sandbox.state.as_str());
            states.collect::<Vec<_>>().join(",")
        })
        .shown_if(wide),
        RowColumn::new("EXIT", |(_, container)| container.and_then(exit)).shown_if(wide),
        RowColumn::new("IMAGE", |(_, container)| {
            container.and_then(|of| of.image.as_deref()).map(short_image)
        })
        .shown_if(wide),
    ]
}

/// Shortens the digest of an image to the length of a short id.
fn short_image(image: &str) -> String {
    match image.split_once("sha256:") {
        Some((name, digest)) => format!("{name}sha256:{}", digest.chars().take(SHORT_ID).collect::<String>()),
        None => image.to_owned(),
    }
}

/// Formats the exit, such as `137 OOMKilled`, if the status is known.
fn exit(container: &ReportedContainer) -> Option<String> {
    let status = container.status.as_ref()?;
    let code = status.exit_code.map(|code| code.to_string());
    let words: Vec<String> = code.into_iter().chain(status.reason.clone()).collect();
    Some(words.join(" "))
}

fn slowest(calls: &[CallRecord], out: &mut Page<'_>) -> io::Result<()> {
    let mut slowest: Vec<&CallRecord> = calls.iter().collect();
    slowest.sort_by_key(|call| std::cmp::Reverse(call.duration_seconds));
    slowest.truncate(MAX_CALLS);
    let columns = vec![
        CallColumn::new("TOOK", |call| took(call.duration_seconds.duration())),
        CallColumn::new("CALL", |call| about(&call.rpc, call.pod.as_ref(), call.id.as_deref())),
        CallColumn::new("OUTCOME", |call| call.outcome.as_str().to_owned()),
        CallColumn::new("RECEIVED", |call| bytes(call.response_bytes)),
        CallColumn::new("MESSAGE", |call| call.message.clone()),
    ];
    table::write(out, columns, slowest)
}

/// Formats `relist 4.1ms = ListPodSandbox 1.9ms (…) + ListContainers 2.2ms (…)`, and what the status calls add: some of them wait
/// at the same time, so their times together may be longer than the relist.
fn latency(relist: &RelistCost) -> String {
    let (lists, statuses): (Vec<_>, Vec<_>) = relist.calls.iter().partition(|call| call.id.is_none());
    let whole = relist.duration_seconds.duration();
    let of_lists: Duration = lists.iter().map(|call| call.duration_seconds.duration()).sum();
    let mut parts: Vec<String> = lists.into_iter().map(call).collect();
    if !statuses.is_empty() {
        let total: Duration = statuses.iter().map(|call| call.duration_seconds.duration()).sum();
        let rest = whole.saturating_sub(of_lists);
        let mut part = format!("{} {}", plural(statuses.len(), "status call"), took(rest));
        if total > rest {
            // Writing to a String cannot fail.
            let _ = write!(part, " ({} added up)", took(total));
        }
        for outcome in [Outcome::Error, Outcome::Silent] {
            let count = statuses.iter().filter(|call| call.outcome == outcome).count();
            if count > 0 {
                let _ = write!(part, ", {count} {}", outcome.as_str());
            }
        }
        parts.push(part);
    }
    format!("relist {} = {}", took(whole), parts.join(" + "))
}

/// Formats one call with its duration, its size and its error.
pub fn call(call: &CallRecord) -> String {
    let subject = about(&call.rpc, call.pod.as_ref(), call.id.as_deref());
    let figures = call_figures(call.duration_seconds.duration(), call.response_bytes);
    match &call.message {
        None => format!("{subject} {figures}"),
        Some(message) => format!("{subject} {figures} {}: {}", call.outcome.as_str(), message),
    }
}

/// Formats the duration and the size of one call.
pub fn call_figures(duration: Duration, received: u64) -> String {
    format!(
        "{} ({}, {} of 16 MiB)",
        took(duration),
        bytes(received),
        percent(received, KUBELET_RECEIVE_LIMIT)
    )
}

/// Prints the report as metrics.
pub fn prometheus(report: &RelistReport, out: &mut dyn Write) -> io::Result<()> {
    let lists = || report.relist.calls.iter().filter(|call| call.id.is_none());
    let seconds = report.relist.duration_seconds.as_f64();
    gauge(out, "plegctl_relist_duration_seconds", "Duration of the relist.", "", [("", seconds)])?;
    let durations = lists().map(|call| (call.rpc.as_str(), call.duration_seconds.as_f64()));
    gauge(out, "plegctl_list_duration_seconds", "Duration of each list call.", "rpc", durations)?;
    let sizes = lists().map(|call| (call.rpc.as_str(), call.response_bytes));
    let help = "Size of each list answer; the kubelet takes up to 16777216.";
    gauge(out, "plegctl_list_response_bytes", help, "rpc", sizes)?;
    if statuses(&report.relist).next().is_some() {
        let count = |outcome| statuses(&report.relist).filter(|call| call.outcome == outcome).count();
        let outcomes = [Outcome::Ok, Outcome::Error, Outcome::Silent];
        let outcomes = outcomes.map(|outcome| (outcome.as_str(), count(outcome)));
        gauge(out, "plegctl_status_calls", "Status calls by outcome.", "outcome", outcomes)?;
    }
    let counts = &report.counts;
    gauge(out, "plegctl_pods", "Pods known to the runtime.", "", [("", counts.pods)])?;
    let of = &counts.sandboxes;
    let sandboxes = [("running", of.running), ("exited", of.exited), ("unknown", of.unknown)];
    gauge(out, "plegctl_sandboxes", "Pod sandboxes by the kubelet's state.", "state", sandboxes)?;
    let of = &counts.containers;
    let containers =
        [("created", of.created), ("running", of.running), ("exited", of.exited), ("unknown", of.unknown)];
    gauge(out, "plegctl_containers", "Containers by the kubelet's state.", "state", containers)
}

/// Prints a metric: for each value of the label one sample, or one sample without a label.
fn gauge<'a>(
    out: &mut dyn Write,
    name: &str,
    help: &str,
    label: &str,
    samples: impl IntoIterator<Item = (&'a str, impl Display)>,
) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")?;
    samples.into_iter().try_for_each(|(text, value)| match label {
        "" => writeln!(out, "{name} {value}"),
        _ => writeln!(out, "{name}{{{label}=\"{text}\"}} {value}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_parts_of_a_relist_add_up_to_it_although_status_calls_wait_at_the_same_time() {
        let relist = |status_seconds: f64| {
            let call = |rpc: &str, id: Option<&str>, seconds: f64| json!({"rpc": rpc, "id": id, "durationSeconds": seconds, "responseBytes": 100, "outcome": "ok"});
            let status = |id| call("ContainerStatus", Some(id), status_seconds);
            let lists = ["ListPodSandbox", "ListContainers"].map(|rpc| call(rpc, None, 0.001));
            let calls = lists.into_iter().chain([status("a"), status("b")]).collect::<Vec<_>>();
            latency(&serde_json::from_value(json!({"durationSeconds": 0.012, "calls": calls})).unwrap())
        };
        let lists = "relist 12.0ms = ListPodSandbox 1.00ms (100 B, 0.0% of 16 MiB) + ListContainers 1.00ms (100 B, 0.0% of 16 MiB)";
        assert_eq!(relist(0.01), format!("{lists} + 2 status calls 10.0ms (20.0ms added up)"));
        assert_eq!(relist(0.004), format!("{lists} + 2 status calls 10.0ms"));
    }
}
