//! Formats the report and the updates of `plegctl pods` as text.

use std::io;

use super::live::PodUpdate;
use super::report::{PodsReport, SourceRow};
use crate::clock::Wall;
use crate::cmd::render::page::Page;
use crate::cmd::render::table::{self, Column};
use crate::cmd::render::watch::time_of_day;
use crate::cmd::render::words::{UNKNOWN, elapsed, or_none};
use crate::manifests::podconfig::{PodProgress, PodRow, PodStage, PodView};
use crate::report::plural;

type PodColumn<'a> = Column<'a, PodRow>;

/// Prints a row for each pod, then a line for each source.
pub fn table(report: &PodsReport, wide: bool, now: Wall, out: &mut Page<'_>) -> io::Result<()> {
    if !report.pods.is_empty() {
        table::write(out, columns(wide, now), &report.pods)?;
        writeln!(out)?;
    }
    for source in &report.sources {
        writeln!(out, "{}", source_line(source))?;
    }
    if report.sources.iter().any(|source| !source.ready) {
        writeln!(
            out,
            "until every source is ready, the kubelet cleans up nothing: it stops no orphaned pod and removes \
             no volume"
        )?;
    }
    Ok(())
}

fn columns(wide: bool, now: Wall) -> Vec<PodColumn<'static>> {
    let view = |view: &Option<PodView>| view.as_ref().map_or_else(|| UNKNOWN.to_owned(), in_words);
    vec![
        PodColumn::new("NAMESPACE", |pod| pod.namespace.clone()),
        PodColumn::new("POD", |pod| pod.name.clone()),
        PodColumn::new("SOURCE", |pod| Some(pod.source?.as_str().to_owned())),
        PodColumn::new("VERDICT", |pod| pod.verdict.as_str().to_owned()),
        PodColumn::new("AGE", move |pod| Some(elapsed(now.duration_since(pod.running.as_ref()?.since?)))),
        PodColumn::new("UID", |pod| pod.uid.clone()).shown_if(wide),
        PodColumn::new("WANTED", move |pod| view(&pod.views.wanted)).shown_if(wide),
        PodColumn::new("KUBELET", move |pod| view(&pod.views.kubelet)).shown_if(wide),
        PodColumn::new("RUNTIME", move |pod| view(&pod.views.runtime)).shown_if(wide),
        PodColumn::new("API", move |pod| view(&pod.views.api)).shown_if(wide),
        PodColumn::new("WHY", why),
    ]
}

/// Formats the reason for the verdict, with the views if they contradict each other.
fn why(pod: &PodRow) -> String {
    let why = or_none(&pod.why);
    if !pod.views.disagree() {
        return why;
    }
    let known = pod.views.columns().into_iter().filter_map(|(name, view)| Some((name, view?)));
    let known = known.filter(|(name, _)| *name != "wanted");
    let views: Vec<String> = known.map(|(name, view)| format!("{name} {}", in_words(view))).collect();
    format!("{why} [{}]", views.join(", "))
}

/// Formats a view as its state and, if it is known, the age of the state.
fn in_words(view: &PodView) -> String {
    match view.age_seconds {
        Some(age) => format!("{} {}", view.state, elapsed(age.duration())),
        None => view.state.clone(),
    }
}

/// Formats the line of one source.
fn source_line(source: &SourceRow) -> String {
    let (name, pods) = (source.name, plural(source.pods, "pod"));
    let state = if source.ready { format!("ready, {pods}") } else { "not ready".to_owned() };
    match &source.error {
        Some(error) => format!("source {name}: {state} ({error})"),
        None => format!("source {name}: {state}"),
    }
}

/// Prints a line for each pod, for a shell loop.
pub fn names(report: &PodsReport, out: &mut Page<'_>) -> io::Result<()> {
    for pod in &report.pods {
        writeln!(out, "{}/{}", pod.namespace, pod.name)?;
    }
    Ok(())
}

/// Prints one update.
pub fn update(update: &PodUpdate, out: &mut Page<'_>) -> io::Result<()> {
    let PodUpdate { time, op, source, ready, pods } = update;
    let clock = time_of_day(*time);
    let waits = if *ready { "" } else { "  (not every source is ready yet)" };
    if pods.is_empty() {
        return writeln!(out, "{clock}  {:<9}  {source}  no pods: the source is ready{waits}", op.as_str());
    }
    for pod in pods {
        let name = format!("{}/{}", pod.namespace, pod.name);
        writeln!(out, "{clock}  {:<9}  {source}  {}  {}{waits}", op.as_str(), name, pod.uid)?;
    }
    Ok(())
}

/// Prints the progress of one pod.
pub fn step(time: Wall, step: &PodProgress, out: &mut Page<'_>) -> io::Result<()> {
    let name = format!("{}/{}", step.identity.namespace, step.identity.name);
    let what = match (step.stage, step.replaced) {
        (PodStage::Gone, true) => "old version gone",
        (stage, _) => stage.as_str(),
    };
    writeln!(out, "{}  {}: {what} after {:.1} s", time_of_day(time), name, step.after.as_secs_f64())
}
