//! `watch --node NAME`: asks the recorder of another node again and again, and prints a line when its verdict changes and
//! when an incident ends. Without a recorder, it judges the node by the kubelet's endpoints, as `health --node` does.
//!
//! ```text
//! $ plegctl watch --node n1
//! 2026-11-21T12:03:04.512Z  HEALTHY  no incident is open; the last relist took 12ms and ended 2s ago; not looked at: shims, …
//!   source: the recorder plegctl/plegctl-x through the API server; last relist ended 2s ago
//! 2026-11-21T12:05:10.033Z  UNHEALTHY  ListContainers does not answer (D02, certain)
//!   source: the recorder plegctl/plegctl-x through the API server; incident 3 since …; diagnosed 4s ago
//! ```

use std::io;

use super::{WatchArgs, WatchOutput};
use crate::clock::Wall;
use crate::cmd::context::Context;
use crate::cmd::health::judge_node;
use crate::cmd::recorder_pages::IncidentList;
use crate::cmd::remote_node::RemoteNode;
use crate::cmd::render::capture::brief;
use crate::cmd::render::health::source_line;
use crate::cmd::stop_signals::StopSignals;
use crate::cmd::streams;
use crate::cmd::{Error, Exit};
use crate::diagnosis::HealthReport;
use crate::diagnosis::report::{SourceKind, Verdict};
use crate::report::{document, json, plural};

/// What was printed last.
#[derive(Default)]
struct Printed {
    /// The parts of the last verdict that make a new line necessary.
    key: Option<String>,
    /// When the present state of the recorder began. It changes when an incident begins or ends.
    since: Option<Wall>,
    /// The time of the answer before which every ended incident was printed.
    incidents_until: Option<Wall>,
    changes: u64,
    incidents: u64,
}

/// Watches the node until a signal or a limit ends it.
pub async fn run(arguments: &WatchArgs, node: &RemoteNode, context: &Context) -> Result<Exit, Error> {
    let mut stop = StopSignals::listen(arguments.lasting).map_err(Error::Start)?;
    let began = context.clock.mono();
    let mut printed = Printed::default();
    let mut answers = 0;
    let exit = loop {
        let judged = tokio::select! {
            judged = Box::pin(judge_node(&node.cluster, &node.name, None, node.timeout, context)) => judged,
            () = stop.next() => break Exit::Good,
        };
        let judged = match judged {
            // The first request shows whether there is such a node, and whether the user may read it.
            Err(why) if answers == 0 => return Err(why),
            judged => judged,
        };
        answers += 1;
        printed.show(&judged, arguments.output, context)?;
        if let Ok(report) = &judged {
            let listed = printed.ended_incidents(report, node);
            let listed = tokio::select! {
                listed = Box::pin(listed) => listed,
                () = stop.next() => break Exit::Good,
            };
            if let Some(list) = listed {
                printed.show_incidents(&list, arguments.output, context)?;
            }
            if arguments.until_unhealthy && report.verdict == Verdict::Unhealthy {
                break Exit::Bad;
            }
        }
        if arguments.count.is_some_and(|count| answers >= count.get()) {
            break Exit::Good;
        }
        tokio::select! {
            () = tokio::time::sleep(arguments.period.unwrap_or(super::REMOTE_PERIOD)) => {}
            () = stop.next() => break Exit::Good,
        }
    };
    if arguments.output == WatchOutput::Table {
        let Printed { changes, incidents, .. } = printed;
        let lasted = crate::report::duration::elapsed(context.clock.mono().since(began));
        let (answers, changes) = (plural(answers, "answer"), plural(changes, "change"));
        let incidents = plural(incidents, "ended incident");
        streams::text(context.style(), |out| {
            writeln!(out, "watched {} for {lasted}: {answers}, {changes}, {incidents}", node.name)
        })?;
    }
    Ok(exit)
}

impl Printed {
    /// Prints the verdict if it differs from the last one.
    fn show(
        &mut self,
        judged: &Result<HealthReport, Error>,
        output: WatchOutput,
        context: &Context,
    ) -> io::Result<()> {
        let key = key_of(judged);
        if self.key.as_ref() == Some(&key) {
            return Ok(());
        }
        self.changes += u64::from(self.key.is_some());
        self.key = Some(key);
        match (judged, output) {
            (Ok(report), WatchOutput::Jsonl) => streams::document(|out| json::line(report, out)),
            (Ok(report), WatchOutput::Table) => streams::text(context.style(), |out| {
                let verdict = report.verdict.as_str().to_uppercase();
                let primary = report.primary.as_ref();
                let rule =
                    primary.map(|finding| format!(" ({}, {})", finding.id, finding.confidence.as_str()));
                let (summary, rule) = (&report.summary, rule.unwrap_or_default());
                writeln!(out, "{}  {verdict}  {summary}{rule}", brief(context.clock.wall()))?;
                match &report.source {
                    Some(source) => writeln!(out, "  {}", source_line(source, report)),
                    None => Ok(()),
                }
            }),
            // There is no document without an answer.
            (Err(why), WatchOutput::Jsonl) => {
                context.remark(&why.to_string());
                Ok(())
            }
            (Err(why), WatchOutput::Table) => streams::text(context.style(), |out| {
                writeln!(out, "{}  UNKNOWN  {why}", brief(context.clock.wall()))
            }),
        }
    }

    /// Requests the incidents if one began or ended since the last answer. Returns those that ended since then.
    async fn ended_incidents(&mut self, report: &HealthReport, node: &RemoteNode) -> Option<IncidentList> {
        let source = report.source.as_ref().filter(|source| source.kind == SourceKind::Recorder)?;
        let before = self.since.replace(source.since?);
        // Incidents that were over at the first answer are not news.
        let until = *self.incidents_until.get_or_insert(report.taken_at);
        if before.is_none() || before == self.since {
            return None;
        }
        // Without an answer, the next change tries again.
        let (mut list, _) = node.incidents().await.ok()?;
        self.incidents_until = Some(list.taken_at);
        list.incidents.retain(|incident| incident.to.is_some_and(|to| to > until));
        (!list.incidents.is_empty()).then_some(list)
    }

    /// Prints the incidents that ended.
    fn show_incidents(
        &mut self,
        list: &IncidentList,
        output: WatchOutput,
        context: &Context,
    ) -> io::Result<()> {
        self.incidents += u64::try_from(list.incidents.len()).unwrap_or(u64::MAX);
        if output == WatchOutput::Jsonl {
            return streams::document(|out| json::line(&document(list), out));
        }
        streams::text(context.style(), |out| {
            list.incidents.iter().try_for_each(|incident| {
                let what = incident.summary.as_deref().unwrap_or(&incident.why);
                let (from, lasted) = (brief(incident.from), incident.lasted());
                writeln!(out, "  incident {} is over: from {from}, {lasted}: {what}", incident.number)
            })
        })
    }
}

/// Returns the parts of a verdict whose change is shown. Numbers in the summary, such as an age, change all the time.
fn key_of(judged: &Result<HealthReport, Error>) -> String {
    let without_digits =
        |text: &str| text.replace(|letter: char| letter.is_ascii_digit() || letter == '.', "");
    let report = match judged {
        Ok(report) => report,
        Err(why) => return without_digits(&why.to_string()),
    };
    let summary = match (report.verdict, report.not_ready()) {
        (Verdict::Healthy, _) => String::new(),
        // The summary has the distance of this time.
        (_, Some(not_ready)) => format!("{not_ready:?}"),
        _ => without_digits(&report.summary),
    };
    let source = report.source.as_ref();
    let source = source.map(|source| (source.kind, source.pod.clone(), source.incident));
    let primary = report.primary.as_ref();
    let primary = primary.map(|finding| (finding.id.to_string(), finding.confidence, finding.ids.clone()));
    format!("{:?} {source:?} {primary:?} {summary}", report.verdict)
}
